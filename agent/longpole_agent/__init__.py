"""The daemon on every node: samples hardware, receives trainers' data, delivers both.

sources/     one file per thing that can be sampled: NVML, host, simulated GPUs, own counters
sampler      samples all sources at a fixed phase, one OTLP request per tick
receiver/    OTLP over HTTP and gRPC on loopback, passed on unparsed
intake       makes what arrives durable in the spool (`longpole.spool`), then acknowledges it
forward      reads the spool in order and posts to the server until it has everything
"""
