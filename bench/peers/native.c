/* Peers in C: dense products by OpenBLAS, Fourier transforms by FFTW (float32).
 *
 *	cc -O2 -o native native.c -ldl -lm
 *	OPENBLAS_NUM_THREADS=1 ./native blas
 *	./native fftw
 *
 * The libraries are opened by name at run time, so that neither headers nor development packages are needed. Requests come
 * as lines of words between tabs, each is answered with one line, "ok …" or "error …" (see ../harness/peer.go):
 *
 *	load product COUNT:ROWS:N:K …   COUNT products (rows x K) (K x N) side by side in matrices of COUNT*K and COUNT*N
 *	                                columns; all of them, one after the other, are one run
 *	load apart COUNT:ROWS:N:K …     the same products, each on matrices of its own, one behind the other
 *	load dft real|complex N BATCH   a forward transform of BATCH rows
 *	run ID REPS                     nanoseconds that REPS runs took, and nanoseconds of processor time
 *	drop ID
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void (*gemm_t)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
typedef void *(*many_t)(int, const int *, int, void *, const int *, int, int, void *, const int *, int, int, int, unsigned);
typedef void *(*many_r2c_t)(int, const int *, int, void *, const int *, int, int, void *, const int *, int, int, unsigned);
typedef void (*plan_t)(void *);

static gemm_t gemm;
static many_t plan_many;
static many_r2c_t plan_many_r2c;
static plan_t execute, destroy_plan;

enum { row_major = 101, no_trans = 111, forward = -1, fftw_measure = 0 };

struct product { int count, rows, n, k, apart; float *w; };
struct job {
	struct product *products;
	int n_products;
	float *x, *y;
	void *plan;
};

static struct job **jobs;
static int n_jobs;

static void fail(const char *why) {
	printf("error\t%s\n", why);
	fflush(stdout);
}

static void *library(const char *const *names, char *found, size_t size) {
	for (; *names; names++) {
		void *h = dlopen(*names, RTLD_NOW | RTLD_GLOBAL);
		if (h) {
			snprintf(found, size, "%s", *names);
			return h;
		}
	}
	return NULL;
}

static float *floats(size_t n) {
	void *p = NULL;
	if (posix_memalign(&p, 64, (n ? n : 1) * sizeof(float))) return NULL;
	float *v = p;
	uint32_t s = 1;
	for (size_t i = 0; i < n; i++) {
		s = s * 1664525u + 1013904223u;
		v[i] = (float)(s >> 8) / (1 << 23) - 1;
	}
	return v;
}

static void release(struct job *j) {
	if (!j) return;
	for (int i = 0; i < j->n_products; i++) free(j->products[i].w);
	if (j->plan) destroy_plan(j->plan);
	free(j->products);
	free(j->x);
	free(j->y);
	free(j);
}

static const char *load_products(struct job *j, char **words, int n, int apart) {
	size_t x = 0, y = 0;
	j->products = calloc(n, sizeof *j->products);
	if (!j->products) return "out of memory";
	for (int i = 0; i < n; i++) {
		struct product *p = &j->products[i];
		p->apart = apart;
		if (sscanf(words[i], "%d:%d:%d:%d", &p->count, &p->rows, &p->n, &p->k) != 4 || p->count < 1 || p->rows < 1 || p->n < 1 || p->k < 1)
			return "expected COUNT:ROWS:N:K of positive numbers";
		if (!(p->w = floats((size_t)p->count * p->n * p->k))) return "out of memory";
		j->n_products++;
		size_t in = (size_t)p->count * p->rows * p->k, out = (size_t)p->count * p->rows * p->n;
		if (in > x) x = in;
		if (out > y) y = out;
	}
	return (j->x = floats(x)) && (j->y = floats(y)) ? NULL : "out of memory";
}

static const char *load_dft(struct job *j, const char *kind, int n, int batch) {
	int real = !strcmp(kind, "real");
	if (n < 1 || batch < 1) return "expected a length and a batch above 0";
	size_t in = (size_t)n * (real ? 1 : 2) * batch, out = (size_t)(real ? n / 2 + 1 : n) * 2 * batch;
	if (!(j->x = floats(in)) || !(j->y = floats(out))) return "out of memory";
	j->plan = real ? plan_many_r2c(1, &n, batch, j->x, NULL, 1, n, j->y, NULL, 1, n / 2 + 1, fftw_measure)
	               : plan_many(1, &n, batch, j->x, NULL, 1, n, j->y, NULL, 1, n, forward, fftw_measure);
	if (!j->plan) return "FFTW makes no plan";
	for (size_t i = 0; i < in; i++) j->x[i] = sinf((float)i); /* planning has overwritten it */
	return NULL;
}

static void run(struct job *j) {
	if (j->plan) {
		execute(j->plan);
		return;
	}
	for (int i = 0; i < j->n_products; i++) {
		struct product *p = &j->products[i];
		int rows = p->apart ? p->rows : 1, wide = p->apart ? 1 : p->count; /* between products, and of a row, in each's own size */
		for (int s = 0; s < p->count; s++)
			gemm(row_major, no_trans, no_trans, p->rows, p->n, p->k, 1, j->x + (size_t)s * rows * p->k, wide * p->k,
			     p->w + (size_t)s * p->n * p->k, p->n, 0, j->y + (size_t)s * rows * p->n, wide * p->n);
	}
}

static int64_t now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void handle(char **w, int n) {
	if (n >= 3 && !strcmp(w[0], "load")) {
		struct job *j = calloc(1, sizeof *j);
		struct job **more = realloc(jobs, (n_jobs + 1) * sizeof *jobs);
		if (more) jobs = more;
		const char *why = "unknown kind of job for the library that is open";
		if (!j || !more) why = "out of memory";
		else if (gemm && !strcmp(w[1], "product")) why = load_products(j, w + 2, n - 2, 0);
		else if (gemm && !strcmp(w[1], "apart")) why = load_products(j, w + 2, n - 2, 1);
		else if (execute && n == 5 && !strcmp(w[1], "dft")) why = load_dft(j, w[2], atoi(w[3]), atoi(w[4]));
		if (why) {
			release(j);
			fail(why);
			return;
		}
		jobs[n_jobs] = j;
		printf("ok\t%d\n", n_jobs++);
		return;
	}
	int id = n >= 2 ? atoi(w[1]) : -1;
	if (id < 0 || id >= n_jobs || !jobs[id]) {
		fail("no such job");
	} else if (n == 3 && !strcmp(w[0], "run")) {
		int64_t t = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		for (int i = atoi(w[2]); i > 0; i--) run(jobs[id]);
		t = now(CLOCK_MONOTONIC) - t;
		printf("ok\t%lld\t%lld\n", (long long)t, (long long)(now(CLOCK_PROCESS_CPUTIME_ID) - cpu));
	} else if (!strcmp(w[0], "drop")) {
		release(jobs[id]);
		jobs[id] = NULL;
		printf("ok\n");
	} else {
		fail("unknown request");
	}
}

int main(int argc, char **argv) {
	static const char *const blas[] = {"libopenblas.so.0", "libopenblas.so", "libopenblas.dylib", "/opt/homebrew/opt/openblas/lib/libopenblas.dylib", NULL};
	static const char *const fftw[] = {"libfftw3f.so.3", "libfftw3f.so", "libfftw3f.3.dylib", "/opt/homebrew/opt/fftw/lib/libfftw3f.dylib", NULL};
	char name[128];
	if (argc != 2) {
		fail("usage: native blas|fftw");
		return 2;
	}
	if (!strcmp(argv[1], "blas")) {
		void *h = library(blas, name, sizeof name);
		if (!h || !(gemm = (gemm_t)dlsym(h, "cblas_sgemm"))) {
			fail("OpenBLAS is not installed");
			return 1;
		}
		char *(*config)(void) = (char *(*)(void))dlsym(h, "openblas_get_config");
		char *(*core)(void) = (char *(*)(void))dlsym(h, "openblas_get_corename");
		printf("ready\t%s (%s)\n", config ? config() : name, core ? core() : "?");
	} else {
		void *h = library(fftw, name, sizeof name);
		if (!h || !(plan_many = (many_t)dlsym(h, "fftwf_plan_many_dft")) || !(plan_many_r2c = (many_r2c_t)dlsym(h, "fftwf_plan_many_dft_r2c")) ||
		    !(execute = (plan_t)dlsym(h, "fftwf_execute")) || !(destroy_plan = (plan_t)dlsym(h, "fftwf_destroy_plan"))) {
			fail("FFTW for float32 is not installed");
			return 1;
		}
		const char *version = dlsym(h, "fftwf_version");
		printf("ready\t%s\n", version ? version : name);
	}
	fflush(stdout);
	char *line = NULL;
	size_t size = 0;
	while (getline(&line, &size, stdin) > 0) {
		char *words[256], *save = NULL;
		int n = 0;
		for (char *w = strtok_r(line, "\t\n", &save); w && n < 256; w = strtok_r(NULL, "\t\n", &save)) words[n++] = w;
		if (n == 0) continue;
		handle(words, n);
		fflush(stdout);
	}
	return 0;
}
