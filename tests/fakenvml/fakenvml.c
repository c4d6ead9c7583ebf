/* A stand-in for libnvidia-ml.so.1, so that the real nvidia-ml-py can be run where there is no GPU.
 *
 * GPUASSAY_TEST_NVML names a file of answers, a line each: a key, a blank, a value.
 *
 *     driver 580.95.05        of the system
 *     gpu.name NVIDIA B200    of every GPU
 *     3.ecc 0 1               of the fourth GPU alone; a later line wins
 *
 * Instead of a value:  !15 returns that nvmlReturn_t;  hang never returns;  crash ends the process;
 * orphan kills the process above, as the kernel does when memory runs out, and then hangs.
 * A key that is not there is not supported (3). Values that nvml.h gives as a struct are numbers with blanks.
 *
 * Compiled with -DOLD it lacks a function, as an older driver's library does.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, GPU_IS_LOST = 15, ARGUMENT_VERSION_MISMATCH = 25 };

typedef int Return;
typedef unsigned int Number;
typedef struct { int index; } *Device;

typedef struct { char bus_id_legacy[16]; Number domain, bus, device, device_id, subsystem_id; char bus_id[32]; } PciInfo;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { Number max, high, partial, low, none; } Histogram;
typedef struct { Number version; unsigned long long total, reserved, free, used; } MemoryV2;
typedef struct { Number version; unsigned long long counts[11]; Number threshold_exceeded; } Sram;
typedef struct { Number gpu, memory; } Utilization;
typedef struct { Number version, value; } Versioned;
typedef struct { Number version, channel, tpc; } Repairs;
typedef struct { Number pid; unsigned long long used; Number gpu_instance, compute_instance; } Process;
typedef struct { Number id, scope; long long time, latency; Number type; Return status; union { Number number; unsigned long long whole; } value; } Field;

#define MOST_LINES 512
static struct { char key[64], value[192]; } lines[MOST_LINES];
static int line_count;

#define MOST_GPUS 64
static struct { int index; } gpus[MOST_GPUS];

__attribute__((constructor)) static void read_answers(void) {
    const char *path = getenv("GPUASSAY_TEST_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[300];
    while (file && line_count < MOST_LINES && fgets(line, sizeof line, file))
        if (sscanf(line, "%63s %191[^\n]", lines[line_count].key, lines[line_count].value) == 2) line_count++;
    if (file) fclose(file);
    for (int i = 0; i < MOST_GPUS; i++) gpus[i].index = i;
}

static const char *look_up(const char *scope, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "%s%s", scope, name);
    for (int i = line_count - 1; i >= 0; i--)
        if (strcmp(lines[i].key, key) == 0) return lines[i].value;
    return NULL;
}

static const char *answer_of(Device device, const char *name) {
    char scope[16];
    if (!device) return look_up("", name);
    snprintf(scope, sizeof scope, "%d.", device->index);
    const char *own = look_up(scope, name);
    return own ? own : look_up("gpu.", name);
}

static void hang(void) {
    for (;;) pause();
}

/* Find the answer to one question, or do what stands in its place. */
static Return ask(Device device, const char *name, const char **answer) {
    *answer = answer_of(device, name);
    if (!*answer) return NOT_SUPPORTED;
    if (**answer == '!') return atoi(*answer + 1);
    if (strcmp(*answer, "hang") == 0) hang();
    if (strcmp(*answer, "crash") == 0) abort();
    if (strcmp(*answer, "orphan") == 0) { kill(getppid(), SIGKILL); hang(); }
    return SUCCESS;
}

static Return text(Device device, const char *name, char *out, Number size) {
    const char *answer;
    Return status = ask(device, name, &answer);
    if (status == SUCCESS && strlen(answer) >= size) return INSUFFICIENT_SIZE;
    if (status == SUCCESS) strcpy(out, answer);
    return status;
}

/* Read up to five numbers; those that the answer lacks stay as they are. */
static Return numbers(Device device, const char *name, Number *a, Number *b, Number *c, Number *d, Number *e) {
    const char *answer;
    Return status = ask(device, name, &answer);
    if (status == SUCCESS) sscanf(answer, "%u %u %u %u %u", a, b, c, d, e);
    return status;
}

static Return number(Device device, const char *name, Number *out) {
    Number rest;
    return numbers(device, name, out, &rest, &rest, &rest, &rest);
}

/* The library and the system */

Return nvmlInitWithFlags(Number flags) {
    Number ignored = flags;
    Return status = number(NULL, "init", &ignored);
    return status == NOT_SUPPORTED ? SUCCESS : status;
}

const char *nvmlErrorString(Return status) {
    return status == 18 ? "RM has detected an NVML/RM version mismatch." : "an error";
}

Return nvmlSystemGetNVMLVersion(char *out, Number size) { return text(NULL, "nvml", out, size); }
Return nvmlSystemGetDriverVersion(char *out, Number size) { return text(NULL, "driver", out, size); }
Return nvmlSystemGetCudaDriverVersion_v2(Number *out) { return number(NULL, "cuda", out); }
Return nvmlDeviceGetCount_v2(Number *out) { return number(NULL, "count", out); }

Return nvmlDeviceGetHandleByIndex_v2(Number index, Device *out) {
    if (index >= MOST_GPUS) return INVALID_ARGUMENT;
    *out = (Device)&gpus[index];
    const char *answer;
    Return status = ask(*out, "handle", &answer);
    return status == NOT_SUPPORTED ? SUCCESS : status;
}

/* One GPU */

#define TEXT(function, name) \
    Return function(Device device, char *out, Number size) { return text(device, name, out, size); }
#define NUMBER(function, name) \
    Return function(Device device, Number *out) { return number(device, name, out); }
/* The answer has a clock for each nvmlClockType_t: graphics, SM, memory. */
#define CLOCK(function, name) \
    Return function(Device device, Number type, Number *out) { \
        Number rest, clocks[3]; \
        if (type > 2) return INVALID_ARGUMENT; \
        Return status = numbers(device, name, &clocks[0], &clocks[1], &clocks[2], &rest, &rest); \
        if (status == SUCCESS) *out = clocks[type]; \
        return status; \
    }
#define TWO_NUMBERS(function, name) \
    Return function(Device device, Number *a, Number *b) { \
        Number rest; \
        return numbers(device, name, a, b, &rest, &rest, &rest); \
    }

TEXT(nvmlDeviceGetName, "name")
TEXT(nvmlDeviceGetUUID, "uuid")
TEXT(nvmlDeviceGetSerial, "serial")
TEXT(nvmlDeviceGetBoardPartNumber, "board_part")
TEXT(nvmlDeviceGetVbiosVersion, "vbios")
NUMBER(nvmlDeviceGetPerformanceState, "pstate")
NUMBER(nvmlDeviceGetPersistenceMode, "persistence")
NUMBER(nvmlDeviceGetRetiredPagesPendingStatus, "retired_pages_pending")
NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, "pcie_gen")
NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, "pcie_gen_max")
NUMBER(nvmlDeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER(nvmlDeviceGetMaxPcieLinkWidth, "pcie_width_max")
NUMBER(nvmlDeviceGetEnforcedPowerLimit, "power")
NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, "power_default")
CLOCK(nvmlDeviceGetApplicationsClock, "applications_clock")
CLOCK(nvmlDeviceGetDefaultApplicationsClock, "default_applications_clock")
CLOCK(nvmlDeviceGetMaxClockInfo, "max_clock")
TWO_NUMBERS(nvmlDeviceGetEccMode, "ecc")
TWO_NUMBERS(nvmlDeviceGetMigMode, "mig")

Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo *out) {
    const char *answer;
    Return status = ask(device, "pci", &answer);
    if (status == SUCCESS) sscanf(answer, "%31s %x %x", out->bus_id, &out->device_id, &out->subsystem_id);
    return status;
}

Return nvmlDeviceGetMemoryInfo(Device device, Memory *out) {
    const char *answer;
    Return status = ask(device, "memory", &answer);
    if (status == SUCCESS) out->total = strtoull(answer, NULL, 10);
    return status;
}

Return nvmlDeviceGetRemappedRows(Device device, Number *corrected, Number *uncorrected, Number *pending, Number *failed) {
    Number rest;
    return numbers(device, "remapped_rows", corrected, uncorrected, pending, failed, &rest);
}

/* The health of one GPU */

NUMBER(nvmlDeviceGetPowerUsage, "power_mw")

static Return whole(Device device, const char *name, unsigned long long *out) {
    const char *answer;
    Return status = ask(device, name, &answer);
    if (status == SUCCESS) *out = strtoull(answer, NULL, 0);
    return status;
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long *out) {
    return whole(device, "clock_reasons", out);
}

Return nvmlDeviceGetTotalEccErrors(Device device, Number kind, Number since, unsigned long long *out) {
    char name[16];
    snprintf(name, sizeof name, "errors_%u_%u", kind, since);
    return whole(device, name, out);
}

Return nvmlDeviceGetTemperature(Device device, Number sensor, Number *out) {
    return sensor ? INVALID_ARGUMENT : number(device, "gpu_c", out);
}

Return nvmlDeviceGetTemperatureThreshold(Device device, Number which, Number *out) {
    char name[16];
    snprintf(name, sizeof name, "threshold_%u", which);
    return number(device, name, out);
}

Return nvmlDeviceGetUtilizationRates(Device device, Utilization *out) {
    Number rest;
    return numbers(device, "utilization", &out->gpu, &out->memory, &rest, &rest, &rest);
}

Return nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2 *out) { return whole(device, "memory_used", &out->used); }

static Return processes(Device device, const char *name, Number *count, Process *out) {
    const char *answer;
    Number room = *count;
    Return status = ask(device, name, &answer);
    *count = 0;
    if (status != SUCCESS) return status == NOT_SUPPORTED ? SUCCESS : status;
    if (!out || !room) return INSUFFICIENT_SIZE;
    *count = 1;
    sscanf(answer, "%u %llu", &out->pid, &out->used);
    return SUCCESS;
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, Number *count, Process *out) {
    return processes(device, "compute", count, out);
}
Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, Number *count, Process *out) {
    return processes(device, "graphics", count, out);
}

/* "field_230 0" is a value, "field_230 !2" a refusal, "field_164_5 0" the value of link 5; what is not there is not supported, and the call succeeds. */
Return nvmlDeviceGetFieldValues(Device device, int count, Field *fields) {
    for (int i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof name, "field_%u_%u", fields[i].id, fields[i].scope);
        fields[i].type = 1;
        fields[i].status = number(device, name, &fields[i].value.number);
        if (fields[i].status != NOT_SUPPORTED) continue;
        snprintf(name, sizeof name, "field_%u", fields[i].id);
        fields[i].status = number(device, name, &fields[i].value.number);
    }
    return SUCCESS;
}

Return nvmlDeviceValidateInforom(Device device) {
    Number ignored;
    Return status = number(device, "inforom", &ignored);
    return status == NOT_SUPPORTED ? SUCCESS : status;
}

#ifndef OLD
Return nvmlDeviceGetCurrentClocksEventReasons(Device device, unsigned long long *out) {
    return whole(device, "clock_reasons", out);
}

Return nvmlDeviceGetMarginTemperature(Device device, Versioned *out) { return number(device, "tlimit_c", &out->value); }
Return nvmlDeviceGetAddressingMode(Device device, Versioned *out) { return number(device, "addressing", &out->value); }
Return nvmlDeviceGetUnrepairableMemoryFlag_v1(Device device, Versioned *out) {
    return number(device, "unrepairable", &out->value);
}

Return nvmlDeviceGetRepairStatus(Device device, Repairs *out) {
    Number rest;
    return numbers(device, "repairs", &out->channel, &out->tpc, &rest, &rest, &rest);
}

Return nvmlDeviceGetSramEccErrorStatus(Device device, Sram *out) {
    return number(device, "sram_exceeded", &out->threshold_exceeded);
}

Return nvmlDeviceGetRowRemapperHistogram(Device device, Histogram *out) {
    return numbers(device, "banks", &out->max, &out->high, &out->partial, &out->low, &out->none);
}
#endif

/* Its NVLinks and their fabric */

/* "nvlinks 18 3" are 18 links, of which number 3 is down. */
Return nvmlDeviceGetNvLinkState(Device device, Number link, Number *out) {
    Number count = 0, down = 999, rest;
    Return status = numbers(device, "nvlinks", &count, &down, &rest, &rest, &rest);
    if (status == SUCCESS && link >= count) return INVALID_ARGUMENT;
    if (status == SUCCESS) *out = link != down;
    return status;
}

Return nvmlDeviceGetNvLinkErrorCounter(Device device, Number link, Number counter, unsigned long long *out) {
    char name[24];
    (void)link;
    snprintf(name, sizeof name, "counter_%u", counter);
    return whole(device, name, out);
}

/* "fabric 3 0 32766 426 1": state, status, clique, health mask and summary; "cluster" is the first byte of the
 * UUID; "fabric_form 2" is the newest form of the question that this library knows. */
typedef struct { unsigned char cluster[16]; Number status, clique, state; } Fabric;
typedef struct { Number version; Fabric fabric; Number mask; unsigned char summary; } FabricV;

static Return fabric(Device device, Fabric *out, Number *mask, Number *summary) {
    Number cluster = 0;
    Return status = numbers(device, "fabric", &out->state, &out->status, &out->clique, mask, summary);
    if (status != SUCCESS) return status;
    number(device, "cluster", &cluster);
    memset(out->cluster, 0, sizeof out->cluster);
    out->cluster[0] = cluster;
    return SUCCESS;
}

Return nvmlDeviceGetGpuFabricInfo(Device device, Fabric *out) {
    Number mask, summary;
    return fabric(device, out, &mask, &summary);
}

#ifndef OLD
Return nvmlDeviceGetGpuFabricInfoV(Device device, FabricV *out) {
    Number mask = 0, summary = 0, form = 3;
    number(device, "fabric_form", &form);
    if (out->version >> 24 > form) return ARGUMENT_VERSION_MISMATCH;
    Return status = fabric(device, &out->fabric, &mask, &summary);
    out->mask = mask;
    if (out->version >> 24 > 2) out->summary = summary;
    return status;
}
#endif
