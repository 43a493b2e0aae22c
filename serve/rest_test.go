package serve

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/plan"
	"github.com/essmc/essmc/serve/internal/wire"
)

// example writes the model of the specification's examples.
func example(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, graph("(uint32[2,2] input0, bool[3] input1) => (float[3,2] output0)", `
	three = Constant <value = int64[2] {3, 2}> ()
	zero = Constant <value = float {0}> ()
	a = Cast <to = 1> (input0)
	b = ReduceSum <keepdims = 0> (a)
	c = Expand (b, three)
	m = Cast <to = 1> (input1)
	one = Constant <value = int64[1] {1}> ()
	n = Unsqueeze (m, one)
	output0 = Mul (c, n)`), dir, "mymodel", "1", "model.txt")
	return dir
}

// The examples of the specification's text.
func TestSpecification(t *testing.T) {
	h := web(t, start(t, Options{Dir: example(t), Version: "1.2.3"}))
	for _, c := range []struct{ path, want string }{
		{"/v2/health/live", `{"live":true}`},
		{"/v2/health/ready", `{"ready":true}`},
		{"/v2/models/mymodel/ready", `{"ready":true}`},
		{"/v2/models/mymodel/versions/1/ready", `{"ready":true}`},
		{"/v2", `{"extensions":["binary_tensor_data","model_configuration","model_repository","sequence","statistics"],` +
			`"name":"essmc","version":"1.2.3"}`},
		{"/v2/models/mymodel", `{"inputs":[{"datatype":"UINT32","name":"input0","shape":[2,2]},{"datatype":"BOOL","name":"input1",` +
			`"shape":[3]}],"name":"mymodel","outputs":[{"datatype":"FP32","name":"output0","shape":[3,2]}],` +
			`"platform":"essmc_text","versions":["1"]}`},
	} {
		status, body, _ := ask(t, "GET", h.URL+c.path, "")
		if status != http.StatusOK {
			t.Errorf("%s: %d", c.path, status)
		}
		same(t, c.path, body, c.want)
	}
	status, body, _ := ask(t, "POST", h.URL+"/v2/models/mymodel/infer", `{
  "id" : "42",
  "inputs" : [
    {
      "name" : "input0",
      "shape" : [ 2, 2 ],
      "datatype" : "UINT32",
      "data" : [ 1, 2, 3, 4 ]
    },
    {
      "name" : "input1",
      "shape" : [ 3 ],
      "datatype" : "BOOL",
      "data" : [ true, false, true ]
    }
  ],
  "outputs" : [
    {
      "name" : "output0"
    }
  ]
}`)
	if status != http.StatusOK {
		t.Error(status)
	}
	want := `{"model_name":"mymodel","model_version":"1","id":"42","outputs":[{"name":"output0","datatype":"FP32","shape":[3,2],` +
		`"data":[10,10,0,0,10,10]}]}`
	same(t, "infer", body, want)

	// The example of the binary data extension: the header with its length, then 16 and 3 bytes.
	head := `{"model_name":"mymodel","inputs":[{"name":"input0","shape":[2,2],"datatype":"UINT32","parameters":{"binary_data_size":16}},` +
		`{"name":"input1","shape":[3],"datatype":"BOOL","parameters":{"binary_data_size":3}}],` +
		`"outputs":[{"name":"output0","parameters":{"binary_data":true}}]}`
	data := []byte{1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1, 0, 1}
	status, body, header := ask(t, "POST", h.URL+"/v2/models/mymodel/infer", head+string(data), headerLength, fmt.Sprint(len(head)))
	n := len(body) - 24
	if status != http.StatusOK || header.Get(headerLength) != fmt.Sprint(n) || header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%d %v %s", status, header, body)
	}
	same(t, "binary", body[:n], `{"model_name":"mymodel","model_version":"1","outputs":[{"name":"output0","datatype":"FP32","shape":[3,2],`+
		`"parameters":{"binary_data_size":24}}]}`)
	var numbers [6]float32
	if err := binary.Read(strings.NewReader(body[n:]), binary.LittleEndian, &numbers); err != nil || numbers != [6]float32{10, 10, 0, 0, 10, 10} {
		t.Error(numbers, err)
	}
}

// elements are the element types with their names in the textual syntax, and a tensor of each.
func elements() map[string]*tensor.Tensor {
	return map[string]*tensor.Tensor{
		"bool": tensor.FromSlice([]bool{true, false}, 1, 2), "uint8": tensor.FromSlice([]uint8{0, 255}, 1, 2),
		"uint16": tensor.FromSlice([]uint16{0, 65535}, 1, 2), "uint32": tensor.FromSlice([]uint32{0, 1 << 31}, 1, 2),
		"uint64": tensor.FromSlice([]uint64{0, 1 << 63}, 1, 2), "int8": tensor.FromSlice([]int8{-128, 127}, 1, 2),
		"int16": tensor.FromSlice([]int16{-32768, 1}, 1, 2), "int32": tensor.FromSlice([]int32{-1 << 31, 1}, 1, 2),
		"int64": tensor.FromSlice([]int64{-1 << 63, 1}, 1, 2), "float16": tensor.FromSlice([]tensor.F16{0x3c00, 0xc000}, 1, 2),
		"bfloat16": tensor.FromSlice([]tensor.BF16{0x3f80, 0xc000}, 1, 2), "float": tensor.FromSlice([]float32{0.1, -1e30}, 1, 2),
		"double": tensor.FromSlice([]float64{0.1, 1e300}, 1, 2), "string": tensor.FromStrings([]string{"ä", ""}, 1, 2),
	}
}

// Every datatype goes in and comes out, in binary, and in JSON where it has a form.
func TestDatatypes(t *testing.T) {
	dir := t.TempDir()
	for elem := range elements() {
		identity(t, elem, dir, elem+".txt")
	}
	h := web(t, start(t, Options{Dir: dir}))
	for elem, x := range elements() {
		url := h.URL + "/v2/models/" + elem + "/infer"
		name, _ := wire.Name(x.DType())
		raw, err := wire.Encode(x)
		if err != nil {
			t.Fatal(err)
		}
		head := fmt.Sprintf(`{"parameters":{"binary_data_output":true},"inputs":[{"name":"x","shape":[1,2],"datatype":%q,`+
			`"parameters":{"binary_data_size":%d}}]}`, name, len(raw))
		status, body, _ := ask(t, "POST", url, head+string(raw), headerLength, fmt.Sprint(len(head)))
		if status != http.StatusOK || !strings.HasSuffix(body, "]}"+string(raw)) || !strings.Contains(body, name) {
			t.Errorf("%s in binary: %d %q", elem, status, body)
		}
		text, err := wire.AppendJSON(nil, x)
		if err != nil {
			text = []byte("[1,2]")
		}
		status, body, _ = ask(t, "POST", url, fmt.Sprintf(`{"inputs":[{"data":%s,"name":"x","shape":[1,2],"datatype":%q}]}`, text, name))
		switch elem {
		case "float16", "bfloat16":
			if status != http.StatusBadRequest || !strings.Contains(body, "binary data") {
				t.Errorf("%s in JSON: %d %s", elem, status, body)
			}
		default:
			if status != http.StatusOK || !strings.Contains(body, `"data":`+string(text)) {
				t.Errorf("%s in JSON: %d %s", elem, status, body)
			}
		}
	}
}

// Bad requests get a status and a body that says why, and the server goes on.
func TestBadRequests(t *testing.T) {
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	identity(t, "string", dir, "s.txt")
	write(t, graph("(int64[B] x) => (float[B] y)", "t = Constant <value = float[2] {1, 2}> ()\n y = Gather (t, x)"), dir, "g.txt")
	h := web(t, start(t, Options{Dir: dir, Limits: Limits{Body: 2000}}))
	in := func(x string) string { return `{"inputs":[` + x + `]}` }
	ok := `{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}`
	for _, c := range []struct {
		model, body, length string
		status              int
		want                string
	}{
		{"m", in(ok), "", 200, `"data":[1,2]`},
		{"nothing", in(ok), "", 404, "not served"},
		{"m/versions/7", in(ok), "", 404, "version"},
		{"m", "", "", 400, "expected '{', found the end"},
		{"m", "[]", "", 400, "expected '{'"},
		{"m", in(ok) + "x", "", 400, "follows"},
		{"m", `{"inputs":[` + ok, "", 400, "end"},
		{"m", in(""), "", 400, `input "x": is missing`},
		{"m", in(ok + "," + ok), "", 400, "twice"},
		{"m", in(strings.Replace(ok, `"x"`, `"y"`, 1)), "", 400, `input "y"`},
		{"m", in(ok + `,{"name":"z","shape":[1],"datatype":"FP32","data":[1]}`), "", 400, `input "z"`},
		{"m", in(strings.Replace(ok, "FP32", "FP31", 1)), "", 400, "FP31"},
		{"m", in(strings.Replace(ok, "FP32", "FP64", 1)), "", 400, "expected element type float32"},
		{"m", in(strings.Replace(ok, "[1,2]", "[2,2]", 1)), "", 400, "expected 4 elements"},
		{"m", in(strings.Replace(ok, "[1,2]", "[2]", 1)), "", 400, "expected 2 dimensions"},
		{"m", in(strings.Replace(ok, "[1,2]", "[-1,2]", 1)), "", 400, "dimension 0"},
		{"m", in(strings.Replace(ok, "[1,2]", "[1e9,2]", 1)), "", 400, ""},
		{"m", in(strings.Replace(ok, "[1,2]", "[1000000000,1000000000]", 1)), "", 400, ""},
		{"m", in(`{"name":"x","shape":[1,2],"datatype":"FP32"}`), "", 400, "neither"},
		{"m", in(`{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}`), "", 400, "binary_data_size"},
		{"m", in(`{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":-8}}`), "", 400, "binary_data_size"},
		{"m", in(`{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"shared_memory_region":"r"}}`), "", 400, "shared memory"},
		{"m", in(ok), "99999", 400, headerLength},
		{"m", in(ok), "-1", 400, headerLength},
		{"m", in(ok), "x", 400, headerLength},
		{"m", in(ok) + "1234", fmt.Sprint(len(in(ok))), 400, "4 bytes of binary data"},
		{"m", `{"inputs":[` + ok + `],"outputs":[{"name":"w"}]}`, "", 400, `no output "w"`},
		{"m", `{"inputs":[` + ok + `],"outputs":[{"name":"y","parameters":{"classification":3}}]}`, "", 501, "classification"},
		{"m", `{"parameters":{"priority":9},"inputs":[` + ok + `]}`, "", 400, "priority"},
		{"m", `{"parameters":{"timeout":"x"},"inputs":[` + ok + `]}`, "", 400, "timeout"},
		{"m", `{"parameters":{"sequence_id":3},"inputs":[` + ok + `]}`, "", 400, "sequence_start"},
		{"m", `{"parameters":{"sequence_id":3,"sequence_start":true},"inputs":[` + ok + `]}`, "", 501, "no streams"},
		{"m", `{"parameters":{"essmc_session":true},"inputs":[` + ok + `]}`, "", 400, "ModelStreamInfer"},
		{"m", `{"parameters":{"unknown":[1]},"inputs":[` + ok + `]}`, "", 200, ""},
		{"g", in(`{"name":"x","shape":[1],"datatype":"INT64","data":[5]}`), "", 400, "Gather"},
		{"s", in(`{"name":"x","shape":[1,1],"datatype":"BYTES","data":["` + "\xff" + `"]}`), "", 200, ""},
		{"m", strings.Repeat(" ", 2001), "", 413, "2000 bytes"},
	} {
		var header []string
		if c.length != "" {
			header = []string{headerLength, c.length}
		}
		status, body, _ := ask(t, "POST", h.URL+"/v2/models/"+c.model+"/infer", c.body, header...)
		var e struct{ Error string }
		if status != 200 && (json.Unmarshal([]byte(body), &e) != nil || e.Error == "") {
			t.Errorf("%s: the body has no error: %s", c.body, body)
		} else if status != 200 {
			body = e.Error
		}
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s %s: expected %d %q, found %d %s", c.model, c.body, c.status, c.want, status, body)
		}
	}
	for path, want := range map[string]int{"/v2/models/m/infer": 404, "/v3": 404, "/v2/systemsharedmemory/status": 501,
		"/v2/cudasharedmemory/region/r/status": 501, "/v2/trace/setting": 501, "/v2/logging": 501, "/v2/models/w": 404} {
		if status, body, _ := ask(t, "GET", h.URL+path, ""); status != want || !strings.Contains(body, `"error"`) {
			t.Errorf("%s: expected %d, found %d %s", path, want, status, body)
		}
	}
}

// NaN is answered, in JSON as text, and counted.
func TestNaN(t *testing.T) {
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	s := start(t, Options{Dir: dir})
	h := web(t, s)
	status, body, _ := ask(t, "POST", h.URL+"/v2/models/m/infer",
		`{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":["NaN","-Infinity",1]}]}`)
	if status != 200 || !strings.Contains(body, `"data":["NaN","-Infinity",1]`) {
		t.Error(status, body)
	}
	admin := httptestAdmin(t, s)
	if _, body, _ := ask(t, "GET", admin+"/metrics", ""); !strings.Contains(body, "essmc_nan_inputs_total 1") {
		t.Error("the metric does not count it")
	}
}

// A body over the limit is refused before it is read, one that unpacks to more than the limit too, and a slow one ends.
func TestBodies(t *testing.T) {
	dir := t.TempDir()
	identity(t, "float", dir, "m.txt")
	s := start(t, Options{Dir: dir, Limits: Limits{Body: 1 << 16, Send: 300 * time.Millisecond}})
	h := web(t, s)
	url := h.URL + "/v2/models/m/infer"
	pack := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.String()
	}
	text := `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`
	if status, body, _ := ask(t, "POST", url, pack(text), "Content-Encoding", "gzip"); status != 200 {
		t.Error(status, body)
	}
	for what, c := range map[string]struct {
		body, encoding string
		want           int
	}{"a bomb": {pack(text + strings.Repeat(" ", 1<<20)), "gzip", 413}, "not gzip": {text, "gzip", 400},
		"cut": {pack(text)[:20], "gzip", 400}, "another encoding": {text, "br", 400}} {
		if status, body, _ := ask(t, "POST", url, c.body, "Content-Encoding", c.encoding); status != c.want {
			t.Errorf("%s: expected %d, found %d %s", what, c.want, status, body)
		}
	}
	raw := func(request string) string {
		t.Helper()
		c, err := net.Dial("tcp", h.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = io.WriteString(c, request)
		b, _ := io.ReadAll(c)
		return string(b)
	}
	head := "POST /v2/models/m/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
	if got := raw(head + "Content-Length: 99999999999\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 413") {
		t.Errorf("a body that does not come: %.100s", got)
	}
	if got := raw(head + "Content-Length: 100\r\n\r\n{"); !strings.HasPrefix(got, "HTTP/1.1 408") {
		t.Errorf("a slow body: %.100s", got)
	}
	if got := raw(head + "Transfer-Encoding: chunked\r\n\r\n20000\r\n" + strings.Repeat(" ", 0x20000) + "\r\n0\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 413") {
		t.Errorf("a body without a length: %.100s", got)
	}
	big := `{"inputs":[{"name":"x","shape":[1,9000],"datatype":"FP32","data":[` + strings.Repeat("1,", 8999) + `1]}]}`
	r, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(big))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	z, err := gzip.NewReader(resp.Body)
	if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal(resp.Header, err)
	}
	if b, err := io.ReadAll(z); err != nil || strings.Count(string(b), "1,") < 8999 {
		t.Error("a compressed answer:", err)
	}
}

// Requests beyond the limits are refused at once, and late ones end.
func TestLimits(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "pool")
	s := start(t, Options{Dir: dir, Limits: Limits{Requests: 1}})
	h := web(t, s)
	ok := `{"inputs":[{"name":"input","shape":[1,1,2],"datatype":"FP32","data":[1,2]}]}`
	s.mu.Lock()
	s.running++
	s.mu.Unlock()
	status, body, header := ask(t, "POST", h.URL+"/v2/models/m/infer", ok)
	if status != 429 || header.Get("Retry-After") == "" {
		t.Error(status, body, header)
	}
	s.leave()
	late := `{"parameters":{"timeout":1},"inputs":[{"name":"input","shape":[1,1000,2],"datatype":"FP32","data":[` + strings.Repeat("1,", 1999) + `1]}]}`
	if status, body, _ = ask(t, "POST", h.URL+"/v2/models/m/infer", late); status != 504 {
		t.Error(status, body)
	}
	if status, body, _ = ask(t, "POST", h.URL+"/v2/models/m/infer", ok); status != 200 {
		t.Error(status, body)
	}
}

// The configuration and the statistics have the names and forms that Triton gives them.
func TestConfigAndStatistics(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "pool")
	write(t, graph("(float[2,3] x) => (float[2,3] y)", "y = Relu (x)"), dir, "fixed.txt")
	h := web(t, start(t, Options{Dir: dir, Model: map[string]ModelOptions{"m": {Instances: 2, Batch: BatchOptions{Max: 16,
		Preferred: []int{8}, Delay: time.Millisecond, Levels: 2}}}}))
	_, body, _ := ask(t, "GET", h.URL+"/v2/models/m/config", "")
	for _, want := range []string{`"max_batch_size":16`, `"dynamic_batching":{"default_priority_level":2,` +
		`"default_queue_policy":{"max_queue_size":1024},"max_queue_delay_microseconds":1000,"preferred_batch_size":[8],"priority_levels":2}`,
		`{"data_type":"TYPE_FP32","dims":[-1,2],"name":"input","optional":false}`, `"kind":"KIND_CPU"`, `"count":2`, `"backend":"essmc"`,
		`"essmc.streams":{"string_value":"sequences"}`} {
		if !strings.Contains(body, want) {
			t.Errorf("expected %s in %s", want, body)
		}
	}
	_, body, _ = ask(t, "GET", h.URL+"/v2/models/fixed/config", "")
	for _, want := range []string{`"max_batch_size":0`, `requests run singly: the model declares no batch dimension`, `"dims":[2,3]`} {
		if !strings.Contains(body, want) {
			t.Errorf("expected %s in %s", want, body)
		}
	}
	for range 3 {
		ask(t, "POST", h.URL+"/v2/models/m/infer", `{"inputs":[{"name":"input","shape":[2,1,2],"datatype":"FP32","data":[1,2,3,4]}]}`)
	}
	ask(t, "POST", h.URL+"/v2/models/m/infer", `{"inputs":[{"name":"input","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]}]}`)
	_, body, _ = ask(t, "GET", h.URL+"/v2/models/m/versions/1/stats", "")
	var got struct {
		ModelStats []struct {
			Name           string `json:"name"`
			InferenceCount int    `json:"inference_count"`
			ExecutionCount int    `json:"execution_count"`
			Stats          struct {
				Success, Fail struct{ Count, NS int64 }
			} `json:"inference_stats"`
			Batch []struct {
				Size int `json:"batch_size"`
			} `json:"batch_stats"`
		} `json:"model_stats"`
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || len(got.ModelStats) != 1 {
		t.Fatal(err, body)
	}
	m := got.ModelStats[0]
	if m.Name != "m" || m.InferenceCount != 6 || m.Stats.Success.Count != 3 || m.Stats.Success.NS <= 0 || m.Stats.Fail.Count != 1 ||
		m.ExecutionCount < 4 || len(m.Batch) == 0 || m.Batch[0].Size != 1 {
		t.Errorf("found %s", body)
	}
	if _, body, _ = ask(t, "GET", h.URL+"/v2/models/stats", ""); strings.Count(body, `"model_stats"`) != 1 || !strings.Contains(body, "fixed") {
		t.Errorf("all statistics: %s", body)
	}
}

// Maps are columns, whose names the configuration has.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	m, err := open.Bytes([]byte(graph("(float[B,2] x) => (float[B,2] y)", "y = Relu (x)")), "m", open.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph()
	if err != nil {
		t.Fatal(err)
	}
	g = g.Clone()
	g.Meta[ir.MetaKeys+"y"] = `["no","yes"]`
	if err := plan.WriteFile(filepath.Join(dir, "m.essm"), g); err != nil {
		t.Fatal(err)
	}
	h := web(t, start(t, Options{Dir: dir}))
	if _, body, _ := ask(t, "GET", h.URL+"/v2/models/m/config", ""); !strings.Contains(body, `"essmc.columns.y":{"string_value":"[\"no\",\"yes\"]"}`) {
		t.Errorf("config: %s", body)
	}
	status, body, _ := ask(t, "POST", h.URL+"/v2/models/m/infer", `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[0.25,0.75]}]}`)
	if status != 200 || !strings.Contains(body, `"shape":[1,2],"data":[0.25,0.75]`) {
		t.Errorf("%d %s", status, body)
	}
}
