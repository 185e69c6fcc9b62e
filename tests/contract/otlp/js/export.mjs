// Sends one training step, a scalar and an event with the OpenTelemetry SDK for JavaScript.
//
// Usage: node export.mjs TRANSPORT URL     TRANSPORT: http-proto | http-json | grpc
// `http-proto` sends gzip. Prints what was sent as JSON. Exits 1 when an export is refused.

import { ROOT_CONTEXT, SpanKind, trace } from "@opentelemetry/api";
import { SeverityNumber } from "@opentelemetry/api-logs";
import { OTLPLogExporter as JsonLogExporter } from "@opentelemetry/exporter-logs-otlp-http";
import { OTLPLogExporter as ProtoLogExporter } from "@opentelemetry/exporter-logs-otlp-proto";
import { OTLPMetricExporter as JsonMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPMetricExporter as ProtoMetricExporter } from "@opentelemetry/exporter-metrics-otlp-proto";
import { OTLPTraceExporter as GrpcTraceExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as JsonTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtoTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { LoggerProvider, SimpleLogRecordProcessor } from "@opentelemetry/sdk-logs";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const [transport, url] = process.argv.slice(2);
const SUCCESS = 0;
const failures = [];

/** Counts the exports of an exporter that did not succeed. */
function watch(exporter) {
  const send = exporter.export.bind(exporter);
  exporter.export = (items, done) =>
    send(items, (result) => {
      if (result.code !== SUCCESS) failures.push(String(result.error));
      done(result);
    });
  return exporter;
}

function createExporters() {
  const at = (signal) => ({ url: `${url}/v1/${signal}` });
  if (transport === "grpc") return { traces: new GrpcTraceExporter({ url, compression: "gzip" }) };
  if (transport === "http-json") {
    return {
      traces: new JsonTraceExporter(at("traces")),
      metrics: new JsonMetricExporter(at("metrics")),
      logs: new JsonLogExporter(at("logs")),
    };
  }
  const gzip = (signal) => ({ ...at(signal), compression: "gzip" });
  return {
    traces: new ProtoTraceExporter(gzip("traces")),
    metrics: new ProtoMetricExporter(gzip("metrics")),
    logs: new ProtoLogExporter(gzip("logs")),
  };
}

const exporters = createExporters();
const resource = resourceFromAttributes({
  "service.name": "js-trainer",
  "host.name": "js-host",
  "process.pid": process.pid,
  "rl.run.id": `js/${transport}`,
  "rl.role": "controller",
});

async function sendTraces() {
  const provider = new NodeTracerProvider({
    resource,
    spanProcessors: [new BatchSpanProcessor(watch(exporters.traces))],
  });
  const tracer = provider.getTracer("contract", "1.2.3");
  const loop = tracer.startSpan(
    "rl.loop",
    {
      kind: SpanKind.INTERNAL,
      attributes: { "rl.loop.iteration": 7, "rl.tokens.total": 4096 },
      startTime: [1760000000, 5],
    },
    ROOT_CONTEXT,
  );
  const inside = trace.setSpan(ROOT_CONTEXT, loop);
  const stage = tracer.startSpan(
    "rl.sample",
    {
      attributes: { "rl.loop.iteration": 7, ratio: 0.25, flag: true, list: ["a", "b"] },
      startTime: [1760000001, 0],
    },
    inside,
  );
  stage.addEvent("resumed", { turn: 2 }, [1760000002, 0]);
  stage.end([1760000003, 250]);
  loop.end([1760000009, 0]);
  await provider.forceFlush();
  await provider.shutdown();
  return { trace_id: loop.spanContext().traceId, span_id: loop.spanContext().spanId };
}

async function sendMetrics() {
  const reader = new PeriodicExportingMetricReader({
    exporter: watch(exporters.metrics),
    exportIntervalMillis: 3_600_000,
  });
  const provider = new MeterProvider({ resource, readers: [reader] });
  const meter = provider.getMeter("contract");
  meter.createGauge("loss").record(0.125, { "rl.loop.iteration": 7 });
  meter.createCounter("samples").add(256, { "rl.loop.iteration": 7 });
  meter.createHistogram("latency").record(1.5);
  await provider.forceFlush();
  await provider.shutdown();
}

async function sendLogs() {
  const provider = new LoggerProvider({
    resource,
    processors: [new SimpleLogRecordProcessor({ exporter: watch(exporters.logs) })],
  });
  provider.getLogger("contract").emit({
    eventName: "rl.stage.start",
    severityNumber: SeverityNumber.INFO,
    attributes: { "rl.loop.iteration": 8, "rl.stage": "gen" },
    timestamp: [1760000010, 0],
  });
  await provider.forceFlush();
  await provider.shutdown();
}

const sent = await sendTraces();
if (exporters.metrics) await sendMetrics();
if (exporters.logs) await sendLogs();
console.log(JSON.stringify(sent));
if (failures.length) {
  console.error(failures.join("\n"));
  process.exitCode = 1;
}
