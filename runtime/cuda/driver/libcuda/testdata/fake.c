// A driver without a card, for the tests of package libcuda. Each call appends a line with its arguments to a log, and
// gives back numbers that the tests know. Its functions are declared as the driver's API declares them; with
// -DCUDA_HEADER='"…/cuda.h"' the compiler holds them against NVIDIA's own declarations (CUDA 12 and 13).
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CUDA_HEADER
#include CUDA_HEADER
#else
typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct { char bytes[16]; } CUuuid;
typedef int CUdevice_attribute, CUfunction_attribute, CUjit_option, CUmemPool_attribute, CUstreamCaptureMode;
typedef struct {
	int allocType, handleTypes;
	struct { int type, id; } location;
	void *win32SecurityAttributes;
	size_t maxSize;
	unsigned short usage;
	unsigned char reserved[54];
} CUmemPoolProps;
#define cuDeviceTotalMem cuDeviceTotalMem_v2
#define cuDeviceGetUuid cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease cuDevicePrimaryCtxRelease_v2
#define cuMemGetInfo cuMemGetInfo_v2
#define cuMemcpyHtoDAsync cuMemcpyHtoDAsync_v2
#define cuMemcpyDtoHAsync cuMemcpyDtoHAsync_v2
#define cuMemcpyDtoDAsync cuMemcpyDtoDAsync_v2
#define cuStreamDestroy cuStreamDestroy_v2
#define cuEventDestroy cuEventDestroy_v2
#define cuStreamBeginCapture cuStreamBeginCapture_v2
#define cuGraphInstantiate cuGraphInstantiateWithFlags
#endif

// Since CUDA 12.8 the header gives cuEventElapsedTime another version, of the same arguments.
#undef cuEventElapsedTime

#define EXPORT __attribute__((visibility("default")))

static char text[1 << 16];
static size_t used;
static char fails[128];
static int failure;
static int version = 12040, devices = 2, major = 9, pools = 1;

// fake_take copies the log to to, and empties it.
EXPORT void fake_take(char *to, size_t bytes) {
	snprintf(to, bytes, "%s", text);
	text[0] = 0, used = 0;
}

// fake_fail lets each call of a function return a result; "" ends it.
EXPORT void fake_fail(const char *name, int code) {
	snprintf(fails, sizeof fails, "%s", name);
	failure = code;
}

EXPORT void fake_machine(int of_version, int of_devices, int of_major, int of_pools) {
	version = of_version, devices = of_devices, major = of_major, pools = of_pools;
}

EXPORT size_t fake_size_of_props(void) { return sizeof(CUmemPoolProps); }
EXPORT size_t fake_offset_of_props(int i) {
	size_t offsets[] = {offsetof(CUmemPoolProps, allocType), offsetof(CUmemPoolProps, handleTypes),
		offsetof(CUmemPoolProps, location.type), offsetof(CUmemPoolProps, location.id),
		offsetof(CUmemPoolProps, win32SecurityAttributes), offsetof(CUmemPoolProps, maxSize),
		offsetof(CUmemPoolProps, usage), offsetof(CUmemPoolProps, reserved)};
	return offsets[i];
}

// The machine is set by the environment in programs that know nothing of fake_machine.
__attribute__((constructor)) static void from_environment(void) {
	const char *s = getenv("FAKE_CUDA");
	if (s) sscanf(s, "%d,%d,%d,%d,%d", &version, &devices, &major, &pools, &failure);
	if (s && failure) strcpy(fails, "cuInit");
}

static int note(const char *name, const char *arguments) {
	int n = snprintf(text + used, sizeof text - used, "%s(%s)\n", name, arguments);
	if (n > 0 && used + n < sizeof text) used += n;
	return strcmp(fails, name) == 0 ? failure : 0;
}

#define CALL(...)                                                  \
	do {                                                           \
		char line_[4096];                                            \
		snprintf(line_, sizeof line_, __VA_ARGS__);                     \
		int r_ = note(__func__, line_);                                 \
		if (r_) return (CUresult)r_;                               \
	} while (0)
#define LONG(x) ((unsigned long long)(x))
#define H(x) LONG((size_t)(x))

EXPORT CUresult cuInit(unsigned int flags) { CALL("%u", flags); return 0; }
EXPORT CUresult cuDriverGetVersion(int *v) { CALL(" "); *v = version; return 0; }
EXPORT CUresult cuGetErrorString(CUresult e, const char **s) {
	if ((int)e == 9999) { *s = NULL; return (CUresult)1; }
	*s = "words of the driver";
	return 0;
}
EXPORT CUresult cuDeviceGetCount(int *n) { CALL(" "); *n = devices; return 0; }
EXPORT CUresult cuDeviceGetName(char *name, int bytes, CUdevice d) {
	CALL("%d, %d", bytes, d);
	snprintf(name, bytes, "Fake %d", d);
	return 0;
}
EXPORT CUresult cuDeviceTotalMem(size_t *n, CUdevice d) { CALL("%d", d); *n = 0x1400000000; return 0; }
EXPORT CUresult cuDeviceGetAttribute(int *v, CUdevice_attribute a, CUdevice d) {
	CALL("%d, %d", (int)a, d);
	switch ((int)a) {
	case 75: *v = d == 1 ? 7 : major; break;
	case 76: *v = d == 1 ? 5 : 0; break;
	case 115: *v = pools; break;
	default: *v = -5 - (int)a;
	}
	return 0;
}
EXPORT CUresult cuDeviceGetUuid(CUuuid *u, CUdevice d) {
	CALL("%d", d);
	for (int i = 0; i < 16; i++) u->bytes[i] = 100 + i;
	return 0;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *c, CUdevice d) { CALL("%d", d); *c = (CUcontext)0x7f00000000c0; return 0; }
EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice d) { CALL("%d", d); return 0; }
EXPORT CUresult cuCtxSetCurrent(CUcontext c) { CALL("%#llx", H(c)); return 0; }
EXPORT CUresult cuMemGetInfo(size_t *f, size_t *t) { CALL(" "); *f = 0x100000001; *t = 0x1400000000; return 0; }

EXPORT CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned int n, CUjit_option *o, void **v) {
	char options[256] = "";
	char *log = NULL;
	unsigned int room = 0;
	for (unsigned int i = 0; i < n; i++) {
		if ((int)o[i] == 5) log = v[i];
		if ((int)o[i] == 6) room = (unsigned int)(size_t)v[i];
		sprintf(options + strlen(options), " %d", (int)o[i]);
	}
	if (log && room) snprintf(log, room, "\nptxas: about %s\n", (const char *)image);
	for (unsigned int i = 0; i < n; i++) if ((int)o[i] == 6) *(unsigned int *)&v[i] = 17;
	CALL("\"%s\", options%s, log of %u", (const char *)image, options, room);
	*m = (CUmodule)0x7f00000000d0;
	return 0;
}
EXPORT CUresult cuModuleUnload(CUmodule m) { CALL("%#llx", H(m)); return 0; }
EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) {
	CALL("%#llx, \"%s\"", H(m), name);
	*f = (CUfunction)0x7f00000000f0;
	return 0;
}
EXPORT CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f) { CALL("%d, %#llx", (int)a, H(f)); *v = 40; return 0; }
EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) { CALL("%#llx, %d, %d", H(f), (int)a, v); return 0; }
EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, CUfunction f, int threads, size_t shared) {
	CALL("%#llx, %d, %zu", H(f), threads, shared);
	*n = 3;
	return 0;
}

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *p, const CUmemPoolProps *q) {
	int rest = 0;
	for (size_t i = 0; i < sizeof q->reserved; i++) rest |= q->reserved[i];
	CALL("type %d, handles %d, location %d:%d, security %#llx, most %zu, usage %d, rest %d", (int)q->allocType,
		(int)q->handleTypes, (int)q->location.type, q->location.id, H(q->win32SecurityAttributes), q->maxSize, q->usage, rest);
	*p = (CUmemoryPool)0x7f0000000050;
	return 0;
}
EXPORT CUresult cuMemPoolDestroy(CUmemoryPool p) { CALL("%#llx", H(p)); return 0; }
EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool p, CUmemPool_attribute a, void *v) {
	CALL("%#llx, %d, %llu", H(p), (int)a, *(unsigned long long *)v);
	return 0;
}
EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool p, size_t keep) { CALL("%#llx, %zu", H(p), keep); return 0; }
EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *a, size_t bytes, CUmemoryPool p, CUstream s) {
	CALL("%zu, %#llx, %#llx", bytes, H(p), H(s));
	*a = 0x7fd200000100;
	return 0;
}
EXPORT CUresult cuMemFreeAsync(CUdeviceptr a, CUstream s) { CALL("%#llx, %#llx", LONG(a), H(s)); return 0; }
EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned int flags) {
	CALL("%zu, %u", bytes, flags);
	*p = memset(malloc(bytes), 'h', bytes);
	return 0;
}
EXPORT CUresult cuMemFreeHost(void *p) { CALL("%.3s", (char *)p); free(p); return 0; }
EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr d, const void *h, size_t n, CUstream s) {
	CALL("%#llx, \"%.*s\", %#llx", LONG(d), (int)n, (const char *)h, H(s));
	return 0;
}
EXPORT CUresult cuMemcpyDtoHAsync(void *h, CUdeviceptr d, size_t n, CUstream s) {
	CALL("%#llx, %zu, %#llx", LONG(d), n, H(s));
	memset(h, 'd', n);
	return 0;
}
EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr d, CUdeviceptr f, size_t n, CUstream s) {
	CALL("%#llx, %#llx, %zu, %#llx", LONG(d), LONG(f), n, H(s));
	return 0;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr d, unsigned char v, size_t n, CUstream s) {
	CALL("%#llx, %d, %zu, %#llx", LONG(d), v, n, H(s));
	return 0;
}

EXPORT CUresult cuStreamCreate(CUstream *s, unsigned int flags) { CALL("%u", flags); *s = (CUstream)0x7f0000000051; return 0; }
EXPORT CUresult cuStreamDestroy(CUstream s) { CALL("%#llx", H(s)); return 0; }
EXPORT CUresult cuStreamSynchronize(CUstream s) { CALL("%#llx", H(s)); return 0; }
EXPORT CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags) { CALL("%#llx, %#llx, %u", H(s), H(e), flags); return 0; }
EXPORT CUresult cuEventCreate(CUevent *e, unsigned int flags) { CALL("%u", flags); *e = (CUevent)0x7f00000000e0; return 0; }
EXPORT CUresult cuEventDestroy(CUevent e) { CALL("%#llx", H(e)); return 0; }
EXPORT CUresult cuEventRecord(CUevent e, CUstream s) { CALL("%#llx, %#llx", H(e), H(s)); return 0; }
EXPORT CUresult cuEventQuery(CUevent e) { CALL("%#llx", H(e)); return 0; }
EXPORT CUresult cuEventSynchronize(CUevent e) { CALL("%#llx", H(e)); return 0; }
EXPORT CUresult cuEventElapsedTime(float *ms, CUevent a, CUevent b) { CALL("%#llx, %#llx", H(a), H(b)); *ms = 1.5f; return 0; }

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx, unsigned int by,
	unsigned int bz, unsigned int shared, CUstream s, void **params, void **extra) {
	char hex[2048] = "";
	if (extra && extra[0] == (void *)1 && extra[2] == (void *)2 && extra[4] == NULL)
		for (size_t i = 0; i < *(size_t *)extra[3] && i < 1000; i++) sprintf(hex + 2 * i, "%02x", ((unsigned char *)extra[1])[i]);
	else
		sprintf(hex, "%s", extra ? "another list" : "none");
	CALL("%#llx, grid %u %u %u, block %u %u %u, shared %u, %#llx, params %#llx, extra %s", H(f), gx, gy, gz, bx, by, bz, shared,
		H(s), H(params), hex);
	return 0;
}
EXPORT CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) { CALL("%#llx, %d", H(s), (int)mode); return 0; }
EXPORT CUresult cuStreamEndCapture(CUstream s, CUgraph *g) { CALL("%#llx", H(s)); *g = (CUgraph)0x7f0000000060; return 0; }
EXPORT CUresult cuGraphInstantiate(CUgraphExec *x, CUgraph g, unsigned long long flags) {
	CALL("%#llx, %llu", H(g), flags);
	*x = (CUgraphExec)0x7f0000000061;
	return 0;
}
EXPORT CUresult cuGraphLaunch(CUgraphExec x, CUstream s) { CALL("%#llx, %#llx", H(x), H(s)); return 0; }
EXPORT CUresult cuGraphDestroy(CUgraph g) { CALL("%#llx", H(g)); return 0; }
#ifndef WITHOUT
EXPORT CUresult cuGraphExecDestroy(CUgraphExec x) { CALL("%#llx", H(x)); return 0; }
#endif
