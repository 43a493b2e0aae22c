package serve

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what the server counts, besides the statistics of versions.
type metrics struct {
	registry *prometheus.Registry
	seconds  *prometheus.HistogramVec // of requests, by protocol and result
	refused  *prometheus.CounterVec
	reloads  *prometheus.CounterVec
	nan      prometheus.Counter
	expired  prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.seconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "essmc_request_seconds",
		Help:    "Time of a request, from its header to its answer.",
		Buckets: prometheus.ExponentialBuckets(100e-6, 2, 18)}, []string{"protocol", "call", "result"})
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "essmc_refused_total",
		Help: "Requests that were refused before they ran."}, []string{"reason"})
	m.reloads = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "essmc_loads_total",
		Help: "Versions of models that were loaded, or could not be."}, []string{"model", "result"})
	m.nan = prometheus.NewCounter(prometheus.CounterOpts{Name: "essmc_nan_inputs_total",
		Help: "Requests with NaN in an input. They are answered."})
	m.expired = prometheus.NewCounter(prometheus.CounterOpts{Name: "essmc_sequences_expired_total",
		Help: "Named sequences that were dropped since no request came."})
	m.registry.MustRegister(m.seconds, m.refused, m.reloads, m.nan, m.expired, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &versions{s})
	return m
}

// versions collects the statistics of the versions that are served, under Triton's names.
type versions struct{ s *Server }

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"model", "version"}, nil)
}

var (
	successDesc  = describe("nv_inference_request_success", "Number of successful requests")
	failureDesc  = describe("nv_inference_request_failure", "Number of failed requests")
	countDesc    = describe("nv_inference_count", "Number of samples that were computed")
	execDesc     = describe("nv_inference_exec_count", "Number of batches that were computed")
	requestDesc  = describe("nv_inference_request_duration_us", "Time of successful requests, in microseconds")
	queueDesc    = describe("nv_inference_queue_duration_us", "Time in queues, in microseconds")
	inferDesc    = describe("nv_inference_compute_infer_duration_us", "Time of computing, in microseconds")
	pendingDesc  = describe("nv_inference_pending_request_count", "Number of requests in queues")
	joinedDesc   = describe("essmc_batching", "1 if requests are joined to batches, 0 if they run singly")
	liveDesc     = prometheus.NewDesc("essmc_sequences", "Live sequences", nil, nil)
	bytesDesc    = prometheus.NewDesc("essmc_sequence_bytes", "Memory of live sequences", nil, nil)
	runningDesc  = prometheus.NewDesc("essmc_running_requests", "Requests that are being answered", nil, nil)
	drainingDesc = prometheus.NewDesc("essmc_draining", "1 while the server is shutting down", nil, nil)
)

func (c *versions) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

func (c *versions) Collect(out chan<- prometheus.Metric) {
	counter, gauge := prometheus.CounterValue, prometheus.GaugeValue
	c.s.repo.each(func(name, number string, slot *slot) {
		if slot.v == nil {
			return
		}
		put := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
			out <- prometheus.MustNewConstMetric(d, kind, v, name, number)
		}
		us := func(d duration) float64 { return float64(d.time.Microseconds()) }
		st := &slot.v.stats
		st.mu.Lock()
		put(successDesc, counter, float64(st.success.count))
		put(failureDesc, counter, float64(st.fail.count))
		put(countDesc, counter, float64(st.inferences))
		put(execDesc, counter, float64(st.executions))
		put(requestDesc, counter, us(st.success))
		put(queueDesc, counter, us(st.waited))
		put(inferDesc, counter, us(st.ranFor))
		st.mu.Unlock()
		put(pendingDesc, gauge, float64(slot.v.q.Waiting()))
		joined, _ := slot.v.q.Joined()
		put(joinedDesc, gauge, map[bool]float64{true: 1}[joined])
	})
	c.s.sequences.mu.Lock()
	live, taken := c.s.sequences.live, c.s.sequences.taken
	c.s.sequences.mu.Unlock()
	c.s.mu.Lock()
	running, draining := c.s.running, c.s.draining
	c.s.mu.Unlock()
	out <- prometheus.MustNewConstMetric(liveDesc, gauge, float64(live))
	out <- prometheus.MustNewConstMetric(bytesDesc, gauge, float64(taken))
	out <- prometheus.MustNewConstMetric(runningDesc, gauge, float64(running))
	out <- prometheus.MustNewConstMetric(drainingDesc, gauge, map[bool]float64{true: 1}[draining])
}

// Admin returns the handler of the admin port: GET /metrics, /debug/pprof/ and POST /reload. Do not show it to clients.
func (s *Server) Admin() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("POST /reload", func(w http.ResponseWriter, r *http.Request) {
		if err := s.Reload(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
	return mux
}

// access writes a line for each request.
type access struct {
	mu  sync.Mutex
	out *json.Encoder // nil: none
}

func newAccess(w io.Writer) *access {
	if w == nil {
		return &access{}
	}
	return &access{out: json.NewEncoder(w)}
}

// accessLine is what is known of a request, without its contents.
type accessLine struct {
	Time     string  `json:"time"`
	Protocol string  `json:"protocol"`
	Call     string  `json:"call"`
	Model    string  `json:"model,omitempty"`
	Version  string  `json:"version,omitempty"`
	ID       string  `json:"id,omitempty"`
	Remote   string  `json:"remote,omitempty"`
	Result   string  `json:"result"`
	Status   int     `json:"status,omitempty"`
	Millis   float64 `json:"ms"`
}

// log counts a request that began at start, and writes its line.
func (s *Server) log(l accessLine, start time.Time) {
	took := time.Since(start)
	s.metrics.seconds.WithLabelValues(l.Protocol, l.Call, l.Result).Observe(took.Seconds())
	if s.access.out == nil {
		return
	}
	l.Time, l.Millis = start.UTC().Format(time.RFC3339Nano), float64(took.Microseconds())/1000
	s.access.mu.Lock()
	defer s.access.mu.Unlock()
	_ = s.access.out.Encode(l) // a full disk does not end the service
}
