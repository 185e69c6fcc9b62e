/* libnvidia-ml.so.1 for tests: answers from a file that the test maps too and changes at run time.
 *
 * The layout of `struct state` is repeated in nvml_stub.py. Numbers of errors and sizes of structs
 * are NVML's own (nvml.h). OMIT_<function> leaves a function out, as an older driver does.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SUCCESS = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, SMALL = 7,
       TIMEOUT = 10, UNKNOWN = 999 };
enum { MAX_DEVICES = 16, MAX_PROCESSES = 4, NUM_GPM = 7, MAX_FIELDS = 24 };
/* Indices of `codes` and `num_calls`. */
enum { UTILIZATION, MEMORY_V2, MEMORY, FIELDS, POWER, ENERGY, TEMPERATURE, SM_CLOCK, EVENTS, THROTTLE,
       PROCESSES, GPM, INIT, SHUTDOWN, XID, ECC, MAX_CLOCK, MIG, NUM_FEATURES };

struct field_state { uint32_t id, code, type, scope; uint64_t value; int64_t timestamp; };
struct device {
  char uuid[80], name[80];
  /* What everything answers while it is not 0; then what each feature answers. */
  uint32_t error, codes[NUM_FEATURES], gpm_codes[NUM_GPM];
  uint32_t utilization_percent, power_milliwatts, temperature, sm_megahertz, max_sm_megahertz;
  uint64_t memory_total, memory_reserved, memory_free, memory_used;
  uint64_t energy_millijoules, clock_events;
  double gpm[NUM_GPM];
  uint32_t num_processes, pids[MAX_PROCESSES];
  uint64_t process_bytes[MAX_PROCESSES];
  uint64_t event_type, event_data, ecc_uncorrected, ecc_corrected;
  uint32_t num_fields;
  struct field_state fields[MAX_FIELDS];
  /* A MIG device: its GPU (index + 1), place in it and instance. A GPU: whether it is divided. */
  uint32_t parent, slot, instance, is_divided;
};

struct state {
  uint32_t init_error, num_devices;
  uint32_t num_calls[NUM_FEATURES];
  struct device devices[MAX_DEVICES];
};

static struct state *state;
static int initialized;

static int map_state(void) {
  if (state) return SUCCESS;
  const char *path = getenv("NVML_STUB_STATE");
  int fd = path ? open(path, O_RDWR) : -1;
  if (fd < 0) return UNKNOWN;
  void *memory = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return UNKNOWN;
  state = memory;
  return SUCCESS;
}

static struct device *device_of(void *handle) {
  uintptr_t index = (uintptr_t)handle - 1;
  return index < MAX_DEVICES ? &state->devices[index] : NULL;
}
static void *handle_of(unsigned place) { return (void *)(uintptr_t)(place + 1); }

/* What every call on a device asks first. */
static int check(void *handle, int feature) {
  if (!initialized) return UNINITIALIZED;
  struct device *device = device_of(handle);
  if (!device) return INVALID;
  state->num_calls[feature]++;
  if (device->error) return (int)device->error;
  return (int)device->codes[feature];
}
#define CHECK(handle, feature) \
  int code = check(handle, feature); \
  if (code) return code; \
  struct device *device = device_of(handle); \
  (void)device

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  int code = map_state();
  if (code) return code;
  state->num_calls[INIT]++;
  if (state->init_error) return (int)state->init_error;
  initialized++;
  return SUCCESS;
}
int nvmlShutdown(void) {
  if (!initialized) return UNINITIALIZED;
  state->num_calls[SHUTDOWN]++;
  initialized--;
  return SUCCESS;
}
const char *nvmlErrorString(int code) {
  static char text[32];
  snprintf(text, sizeof text, "error %d", code);
  return text;
}
int nvmlSystemGetDriverVersion(char *text, unsigned length) {
  snprintf(text, length, "stub");
  return SUCCESS;
}

/* MIG devices stand among the others and are no GPUs of their own. */
static int place_of(unsigned index) {
  for (unsigned place = 0; place < state->num_devices; place++)
    if (!state->devices[place].parent && index-- == 0) return (int)place;
  return -1;
}
int nvmlDeviceGetCount_v2(unsigned *count) {
  if (!initialized) return UNINITIALIZED;
  for (*count = 0; place_of(*count) >= 0;) ++*count;
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) {
  if (!initialized) return UNINITIALIZED;
  int place = place_of(index);
  if (place < 0) return INVALID;
  if (state->devices[place].error) return (int)state->devices[place].error;
  *handle = handle_of((unsigned)place);
  return SUCCESS;
}
int nvmlDeviceGetUUID(void *handle, char *text, unsigned length) {
  struct device *device = device_of(handle);
  if (device->error) return (int)device->error;
  snprintf(text, length, "%s", device->uuid);
  return SUCCESS;
}
int nvmlDeviceGetName(void *handle, char *text, unsigned length) {
  struct device *device = device_of(handle);
  if (device->error) return (int)device->error;
  snprintf(text, length, "%s", device->name);
  return SUCCESS;
}

#ifndef OMIT_nvmlDeviceGetMigMode
int nvmlDeviceGetMigMode(void *handle, unsigned *current, unsigned *pending) {
  CHECK(handle, MIG);
  *current = *pending = device->is_divided;
  return SUCCESS;
}
#endif
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *count) {
  CHECK(handle, MIG);
  *count = 7;
  return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned index, void **mig) {
  CHECK(handle, MIG);
  for (unsigned place = 0; place < state->num_devices; place++) {
    struct device *part = &state->devices[place];
    if (part->parent == (uintptr_t)handle && part->slot == index) {
      *mig = handle_of(place);
      return SUCCESS;
    }
  }
  return NOT_FOUND;
}
int nvmlDeviceGetGpuInstanceId(void *handle, unsigned *instance) {
  CHECK(handle, MIG);
  *instance = device->instance;
  return SUCCESS;
}

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *handle, struct utilization *rates) {
  CHECK(handle, UTILIZATION);
  rates->gpu = device->utilization_percent;
  rates->memory = 0;
  return SUCCESS;
}

struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *handle, struct memory *memory) {
  CHECK(handle, MEMORY);
  *memory = (struct memory){device->memory_total, device->memory_free,
                            device->memory_used + device->memory_reserved};
  return SUCCESS;
}
#ifndef OMIT_nvmlDeviceGetMemoryInfo_v2
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *handle, struct memory_v2 *memory) {
  CHECK(handle, MEMORY_V2);
  if (memory->version != (sizeof *memory | 2u << 24)) return 25;
  *memory = (struct memory_v2){memory->version, device->memory_total, device->memory_reserved,
                               device->memory_free, device->memory_used};
  return SUCCESS;
}
#endif

union value { double d; int i; unsigned u; unsigned long ul; unsigned long long ull; };
struct field { unsigned id, scope; long long timestamp, latency; unsigned type, code; union value value; };
#ifndef OMIT_nvmlDeviceGetFieldValues
int nvmlDeviceGetFieldValues(void *handle, int count, struct field *fields) {
  CHECK(handle, FIELDS);
  for (int i = 0; i < count; i++) {
    fields[i].code = NOT_SUPPORTED;
    for (unsigned k = 0; k < device->num_fields; k++) {
      struct field_state *known = &device->fields[k];
      if (known->id != fields[i].id || known->scope != fields[i].scope) continue;
      fields[i].code = known->code;
      fields[i].type = known->type;
      fields[i].timestamp = known->timestamp;
      fields[i].value.ull = known->value;
    }
  }
  return SUCCESS;
}
#endif
int nvmlDeviceGetPowerUsage(void *handle, unsigned *milliwatts) {
  CHECK(handle, POWER);
  *milliwatts = device->power_milliwatts;
  return SUCCESS;
}
int nvmlDeviceGetTotalEnergyConsumption(void *handle, unsigned long long *millijoules) {
  CHECK(handle, ENERGY);
  *millijoules = device->energy_millijoules;
  return SUCCESS;
}
int nvmlDeviceGetTemperature(void *handle, unsigned sensor, unsigned *celsius) {
  CHECK(handle, TEMPERATURE);
  if (sensor) return INVALID;
  *celsius = device->temperature;
  return SUCCESS;
}
int nvmlDeviceGetClockInfo(void *handle, unsigned clock, unsigned *megahertz) {
  CHECK(handle, SM_CLOCK);
  if (clock != 1) return INVALID;
  *megahertz = device->sm_megahertz;
  return SUCCESS;
}
int nvmlDeviceGetMaxClockInfo(void *handle, unsigned clock, unsigned *megahertz) {
  CHECK(handle, MAX_CLOCK);
  if (clock != 1) return INVALID;
  *megahertz = device->max_sm_megahertz;
  return SUCCESS;
}
/* Blocks for 20 ms a direction on real devices: whoever calls it is wrong. */
int nvmlDeviceGetPcieThroughput(void *handle, unsigned counter, unsigned *kibibytes) {
  (void)handle, (void)counter, (void)kibibytes;
  abort();
}
#ifndef OMIT_nvmlDeviceGetCurrentClocksEventReasons
int nvmlDeviceGetCurrentClocksEventReasons(void *handle, unsigned long long *reasons) {
  CHECK(handle, EVENTS);
  *reasons = device->clock_events;
  return SUCCESS;
}
#endif
int nvmlDeviceGetCurrentClocksThrottleReasons(void *handle, unsigned long long *reasons) {
  CHECK(handle, THROTTLE);
  *reasons = device->clock_events;
  return SUCCESS;
}

struct process { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; };
static int list_processes(void *handle, unsigned *count, struct process *processes) {
  CHECK(handle, PROCESSES);
  unsigned room = *count;
  *count = device->num_processes;
  if (!*count) return SUCCESS;
  if (room < *count) return SMALL;
  for (unsigned i = 0; i < *count; i++)
    processes[i] = (struct process){device->pids[i], device->process_bytes[i], ~0u, ~0u};
  return SUCCESS;
}
#ifndef OMIT_nvmlDeviceGetComputeRunningProcesses_v3
int nvmlDeviceGetComputeRunningProcesses_v3(void *handle, unsigned *count, struct process *list) {
  return list_processes(handle, count, list);
}
#endif
int nvmlDeviceGetComputeRunningProcesses_v2(void *handle, unsigned *count, struct process *list) {
  return list_processes(handle, count, list);
}

#ifndef OMIT_nvmlGpmQueryDeviceSupport
struct gpm_support { unsigned version, supported; };
int nvmlGpmQueryDeviceSupport(void *handle, struct gpm_support *support) {
  struct device *device = device_of(handle);
  support->supported = device->codes[GPM] != NOT_SUPPORTED;
  return SUCCESS;
}
#endif
struct gpm_sample { void *handle; };
int nvmlGpmSampleAlloc(struct gpm_sample **sample) {
  *sample = calloc(1, sizeof **sample);
  return SUCCESS;
}
int nvmlGpmSampleFree(struct gpm_sample *sample) {
  free(sample);
  return SUCCESS;
}
int nvmlGpmSampleGet(void *handle, struct gpm_sample *sample) {
  CHECK(handle, GPM);
  sample->handle = handle;
  return SUCCESS;
}
int nvmlGpmMigSampleGet(void *handle, unsigned instance, struct gpm_sample *sample) {
  CHECK(handle, GPM);
  for (unsigned place = 0; place < state->num_devices; place++) {
    struct device *part = &state->devices[place];
    if (part->parent == (uintptr_t)handle && part->instance == instance) {
      sample->handle = handle_of(place);
      return SUCCESS;
    }
  }
  return INVALID;
}
struct gpm_metric { unsigned id, code; double value; const char *names[3]; };
struct gpm_question { unsigned version, count; struct gpm_sample *before, *after; struct gpm_metric metrics[]; };
int nvmlGpmMetricsGet(struct gpm_question *question) {
  static const unsigned ids[NUM_GPM] = {2, 5, 10, 60, 61, 21, 20};
  if (question->version != 1 || !question->before->handle || !question->after->handle) return INVALID;
  struct device *device = device_of(question->after->handle);
  for (unsigned i = 0; i < question->count; i++) {
    question->metrics[i].code = NOT_SUPPORTED;
    for (unsigned k = 0; k < NUM_GPM; k++)
      if (question->metrics[i].id == ids[k]) {
        question->metrics[i].code = device->gpm_codes[k];
        question->metrics[i].value = device->gpm[k];
      }
  }
  return SUCCESS;
}

/* Events: a device's event is handed out once, to whoever registered for its type. */
struct event { void *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
static unsigned long long registered[MAX_DEVICES];

#ifndef OMIT_nvmlEventSetCreate
int nvmlEventSetCreate(void **set) {
  if (!initialized) return UNINITIALIZED;
  memset(registered, 0, sizeof registered);
  *set = &registered;
  return SUCCESS;
}
#endif
int nvmlEventSetFree(void *set) {
  (void)set;
  return initialized ? SUCCESS : UNINITIALIZED;
}
int nvmlDeviceGetSupportedEventTypes(void *handle, unsigned long long *types) {
  CHECK(handle, XID);
  *types = 8 | 0x4000 | 0x8000;
  return SUCCESS;
}
int nvmlDeviceRegisterEvents(void *handle, unsigned long long types, void *set) {
  CHECK(handle, XID);
  (void)set;
  registered[(uintptr_t)handle - 1] = types;
  return SUCCESS;
}
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned milliseconds) {
  (void)set;
  if (!initialized) return UNINITIALIZED;
  for (unsigned waited = 0; waited <= milliseconds; waited += 25, usleep(25000))
    for (unsigned i = 0; i < state->num_devices; i++) {
      struct device *device = &state->devices[i];
      if (registered[i] & device->event_type) {
        *event = (struct event){handle_of(i), device->event_type, device->event_data, ~0u, ~0u};
        device->event_type = 0;
        return SUCCESS;
      }
    }
  return TIMEOUT;
}

int nvmlDeviceGetTotalEccErrors(void *handle, int type, int counter, unsigned long long *number) {
  CHECK(handle, ECC);
  (void)counter;
  *number = type == 1 ? device->ecc_uncorrected : device->ecc_corrected;
  return SUCCESS;
}
