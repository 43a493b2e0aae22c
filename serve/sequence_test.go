package serve

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/essmc/essmc/ir/tensor"
	pb "github.com/essmc/essmc/serve/internal/inference"
	"github.com/essmc/essmc/serve/internal/wire"
)

// keyFile writes a file with one key.
func keyFile(t *testing.T, fill byte) string {
	t.Helper()
	return write(t, "k "+base64.StdEncoding.EncodeToString(slices.Repeat([]byte{fill}, 32))+"\n", t.TempDir(), "keys")
}

// part returns steps of a sequence [1,steps,2].
func part(x *tensor.Tensor, from, to int) *tensor.Tensor {
	return tensor.FromSlice(slices.Clone(tensor.Data[float32](x)[2*from:2*to]), 1, to-from, 2)
}

// stepper sends a chunk of a sequence, and returns the output.
type stepper func(x *tensor.Tensor, first, last bool) *tensor.Tensor

// chunks feeds a sequence in chunks of n steps, and returns all outputs, of three features.
func chunks(t *testing.T, x *tensor.Tensor, n int, step stepper) *tensor.Tensor {
	t.Helper()
	var all []float32
	steps := x.Dim(1)
	for at := 0; at < steps; at += n {
		end := min(at+n, steps)
		all = append(all, tensor.Data[float32](step(part(x, at, end), at == 0, end == steps))...)
	}
	return tensor.FromSlice(all, 1, len(all)/3, 3)
}

// rest steps a sequence over REST.
func rest(t *testing.T, url string, params string, x *tensor.Tensor, more string) (string, *tensor.Tensor) {
	t.Helper()
	data, err := wire.AppendJSON(nil, x)
	if err != nil {
		t.Fatal(err)
	}
	status, body, _ := ask(t, "POST", url, fmt.Sprintf(`{"parameters":{%s},"inputs":[{"name":"input","shape":[1,%d,2],"datatype":"FP32","data":%s}%s]}`,
		params, x.Dim(1), data, more))
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	_, text, _ := strings.Cut(body, `"data":`)
	text, _, _ = strings.Cut(text, "}")
	out, err := wire.DecodeJSON(tensor.Float32, []int64{1, int64(strings.Count(text, ",")+1) / 3, 3}, []byte(text))
	if err != nil {
		t.Fatal(body, err)
	}
	return body, out
}

// stateIn returns the state in an answer.
func stateIn(t *testing.T, body string) string {
	t.Helper()
	_, text, ok := strings.Cut(body, `"name":"essmc_state","datatype":"BYTES","shape":[1],"data":["`)
	text, _, _ = strings.Cut(text, `"`)
	if !ok {
		t.Fatalf("the answer has no state: %.300s", body)
	}
	return text
}

func stateInput(state string) string {
	return `,{"name":"essmc_state","shape":[1],"datatype":"BYTES","data":["` + state + `"]}`
}

// The whole sequence, chunks of 1, 7 and 64 steps, and a state that the client carries between two replicas give the same
// outputs: named over REST, as a session over gRPC, and carried over both. Streams of one length of chunks are equal bit
// by bit.
func TestWholeEqualsChunks(t *testing.T) {
	dir := t.TempDir()
	path := directory(t, filepath.Join(dir, "m"), 1, false, "none")
	keys := StreamOptions{Keys: keyFile(t, 7)}
	s, other := start(t, Options{Dir: dir, Streams: keys}), start(t, Options{Dir: dir, Streams: keys})
	urls := []string{web(t, s).URL + "/v2/models/m/infer", web(t, other).URL + "/v2/models/m/infer"}
	clients := []pb.GRPCInferenceServiceClient{pb.NewGRPCInferenceServiceClient(dial(t, s)), pb.NewGRPCInferenceServiceClient(dial(t, other))}
	x := noise(1, 1, 130, 2)
	want, err := truth(t, path).Run(t.Context(), map[string]tensor.Datum{"input": x})
	if err != nil {
		t.Fatal(err)
	}
	whole := want["output"].(*tensor.Tensor)
	for _, n := range []int{1, 7, 64, 130} {
		named := chunks(t, x, n, func(x *tensor.Tensor, first, last bool) *tensor.Tensor {
			_, out := rest(t, urls[0], fmt.Sprintf(`"sequence_id":%d,"sequence_start":%v,"sequence_end":%v`, 5+n, first, last), x, "")
			return out
		})
		near(t, fmt.Sprintf("chunks of %d", n), named, whole, 1e-5)
		state, turn := "", 0
		carried := chunks(t, x, n, func(x *tensor.Tensor, first, last bool) *tensor.Tensor {
			more := ""
			if !first {
				more = stateInput(state)
			}
			turn++
			body, out := rest(t, urls[turn%2], `"essmc_state":true`, x, more)
			state = stateIn(t, body)
			return out
		})
		stream, err := clients[0].ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		session := chunks(t, x, n, func(x *tensor.Tensor, first, last bool) *tensor.Tensor {
			if err := stream.Send(with(asks(t, "m", "input", x), map[string]any{"essmc_session": true})); err != nil {
				t.Fatal(err)
			}
			m, err := stream.Recv()
			if err != nil || m.GetErrorMessage() != "" {
				t.Fatal(m, err)
			}
			return floats(t, m.GetInferResponse(), 0)
		})
		_ = stream.CloseSend()
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		var sealed []byte
		remote := chunks(t, x, n, func(x *tensor.Tensor, first, last bool) *tensor.Tensor {
			r := asks(t, "m", "input", x)
			if !first {
				r.Inputs = append(r.Inputs, &pb.ModelInferRequest_InferInputTensor{Name: stateName, Datatype: "BYTES", Shape: []int64{1}})
				r.RawInputContents = append(r.RawInputContents, sealed)
			}
			r.Outputs = []*pb.ModelInferRequest_InferRequestedOutputTensor{{Name: "output"}, {Name: stateName}}
			turn++
			m, err := clients[turn%2].ModelInfer(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			sealed = m.GetRawOutputContents()[1]
			return floats(t, m, 0)
		})
		for what, got := range map[string]*tensor.Tensor{"a carried state": carried, "a session": session, "a carried state over gRPC": remote} {
			if !tensor.Equal(got, named) {
				t.Errorf("chunks of %d: %s has other outputs than a named sequence", n, what)
			}
		}
	}
	if n := s.sequences.count(); n != 0 {
		t.Errorf("%d sequences live", n)
	}
}

// A START that comes again with the same request is answered again, and not run twice.
func TestRepeatedStart(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "none")
	s := start(t, Options{Dir: dir})
	step := func(id string, first, last bool) (*response, error) {
		r := &request{model: "m", id: id, in: map[string]tensor.Datum{"input": noise(1, 1, 4, 2)}}
		r.params.sequence, r.params.start, r.params.end = "a", first, last
		return s.infer(t.Context(), r, nil)
	}
	must := func(out *response, err error) *tensor.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out.outputs[0].data
	}
	one := must(step("r1", true, false))
	again := must(step("r1", true, false))
	v := s.repo.slots("m")["1"].v
	if !tensor.Equal(one, again) || v.stats.executions != 2 { // one was the warm-up
		t.Errorf("%d runs, %v and %v", v.stats.executions, one, again)
	}
	two := must(step("r2", false, false))
	if tensor.Equal(one, two) {
		t.Error("the sequence did not go on")
	}
	if _, err := step("r1", true, false); err == nil || errorOf(err).fault != conflict {
		t.Error("a START that comes too late:", err)
	}
	if fresh := must(step("r3", true, false)); !tensor.Equal(fresh, one) {
		t.Error("a START of another request does not begin anew")
	}
	if next := must(step("r4", false, true)); !tensor.Equal(next, two) || s.sequences.count() != 0 || s.sequences.taken != 0 {
		t.Error("the end: ", s.sequences.count(), s.sequences.taken)
	}
	if _, err := step("r5", false, false); err == nil || !strings.Contains(err.Error(), "sequence_start") {
		t.Error("after the end:", err)
	}
	if fresh := must(step("", true, false)); !tensor.Equal(fresh, one) {
		t.Error("a START without a request id")
	}
	if fresh := must(step("", true, true)); !tensor.Equal(fresh, one) {
		t.Error("a second START without a request id")
	}
}

// A full budget refuses new sequences, and drops none; disconnects and idle time free theirs.
func TestBudget(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "none")
	s := start(t, Options{Dir: dir, Streams: StreamOptions{Memory: 3*overhead + 4096, Idle: time.Hour}})
	state := s.repo.slots("m")["1"].v.stateBytes
	room := (3*overhead + 4096) / (state + overhead)
	if state < 100 || room < 2 {
		t.Fatalf("states of %d bytes, room for %d", state, room)
	}
	step := func(id string, start bool) error {
		r := &request{model: "m", in: map[string]tensor.Datum{"input": noise(1, 1, 4, 2)}}
		r.params.sequence, r.params.start = id, start
		_, err := s.infer(t.Context(), r, nil)
		return err
	}
	for i := range room {
		if err := step(fmt.Sprint(i), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := step("one too many", true); err == nil || errorOf(err).fault != full {
		t.Error(err)
	}
	for i := range room {
		if err := step(fmt.Sprint(i), false); err != nil {
			t.Error("a live sequence was dropped:", err)
		}
	}
	s.sweep(time.Now())
	if n := s.sequences.count(); int64(n) != room {
		t.Errorf("%d sequences live, expected %d", n, room)
	}
	s.sweep(time.Now().Add(2 * time.Hour))
	if n := s.sequences.count(); n != 0 || s.sequences.taken != 0 {
		t.Errorf("%d sequences live, with %d bytes, after all were idle", n, s.sequences.taken)
	}
	stream, err := pb.NewGRPCInferenceServiceClient(dial(t, s)).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(with(asks(t, "m", "input", noise(1, 1, 4, 2)), map[string]any{"essmc_session": true})); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetErrorMessage() != "" || s.sequences.count() != 1 {
		t.Fatal(m, err)
	}
	_ = stream.CloseSend()
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if n := s.sequences.count(); n != 0 {
		t.Errorf("%d sequences live after their connection", n)
	}
}

// States that were changed, are of another server, model or version, or too old are refused, with the reason.
func TestBadStates(t *testing.T) {
	dir := t.TempDir()
	path := directory(t, filepath.Join(dir, "m"), 1, false, "none")
	directory(t, filepath.Join(dir, "other"), 2, false, "none")
	keys := keyFile(t, 7)
	s := start(t, Options{Dir: dir, Streams: StreamOptions{Keys: keys}})
	url := web(t, s).URL + "/v2/models/"
	x := noise(1, 1, 3, 2)
	body, _ := rest(t, url+"m/infer", `"essmc_state":true`, x, "")
	state := stateIn(t, body)
	bad := func(what, url, state, want string) {
		t.Helper()
		status, body, _ := ask(t, "POST", url+"/infer", `{"inputs":[{"name":"input","shape":[1,1,2],"datatype":"FP32","data":[1,2]}`+stateInput(state)+`]}`)
		if status != 400 || !strings.Contains(body, want) {
			t.Errorf("%s: expected %q, found %d %s", what, want, status, body)
		}
	}
	bad("nothing", url+"m", "", "not a state")
	bad("text", url+"m", "!!", "not a state")
	changed := []byte(state)
	if i := len(changed) / 2; changed[i] == 'A' {
		changed[i] = 'B'
	} else {
		changed[i] = 'A'
	}
	bad("changed", url+"m", string(changed), "changed")
	bad("cut", url+"m", state[:len(state)-8], "changed")
	bad("another model", url+"other", state, `of model \"m\"`)
	foreign := start(t, Options{Dir: dir, Streams: StreamOptions{Keys: keyFile(t, 8)}})
	bad("another key", web(t, foreign).URL+"/v2/models/m", state, "not sealed by a key of this server")
	expired := start(t, Options{Dir: dir, Streams: StreamOptions{Keys: keys, Expiry: time.Nanosecond}})
	body, _ = rest(t, web(t, expired).URL+"/v2/models/m/infer", `"essmc_state":true`, x, "")
	bad("expired", url+"m", stateIn(t, body), "expired")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	directory(t, path, 9, false, "none")
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad("other weights", url+"m", state, "other weights")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	directory(t, filepath.Join(path, "2"), 9, false, "none")
	if err := s.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	bad("a version that is gone", url+"m", state, "version \\\"1\\\" is not served; served: 2")
}

// Where replays are refused, a state is good once; other kernels may be refused.
func TestReplays(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "none")
	s := start(t, Options{Dir: dir, Streams: StreamOptions{Replays: "refuse", Variants: "same"}})
	url := web(t, s).URL + "/v2/models/m/infer"
	x := noise(1, 1, 3, 2)
	body, _ := rest(t, url, `"essmc_state":true`, x, "")
	first := stateIn(t, body)
	body, _ = rest(t, url, `"essmc_state":true`, x, stateInput(first))
	second := stateIn(t, body)
	status, body, _ := ask(t, "POST", url, `{"inputs":[{"name":"input","shape":[1,1,2],"datatype":"FP32","data":[1,2]}`+stateInput(first)+`]}`)
	if status != 400 || !strings.Contains(body, "used before") {
		t.Error(status, body)
	}
	rest(t, url, `"sequence_id":"again","sequence_start":true`, x, stateInput(second))
	rest(t, url, `"sequence_id":"again","sequence_end":true`, x, "")
}

// A server that drains answers the next step of each sequence with its state, and another replica goes on from it.
func TestHandOver(t *testing.T) {
	dir := t.TempDir()
	directory(t, filepath.Join(dir, "m"), 1, false, "none")
	o := Options{Dir: dir, Streams: StreamOptions{Keys: keyFile(t, 7)}, Limits: Limits{Drain: 10 * time.Second}}
	s, other := start(t, o), start(t, o)
	urls := []string{web(t, s).URL + "/v2/models/m/infer", web(t, other).URL + "/v2/models/m/infer"}
	x := noise(1, 1, 9, 2)
	want := chunks(t, x, 3, func(x *tensor.Tensor, first, last bool) *tensor.Tensor {
		_, out := rest(t, urls[1], fmt.Sprintf(`"sequence_id":"w","sequence_start":%v,"sequence_end":%v`, first, last), x, "")
		return out
	})
	stream, err := pb.NewGRPCInferenceServiceClient(dial(t, s)).ModelStreamInfer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(with(asks(t, "m", "input", part(x, 0, 3)), map[string]any{"essmc_session": true})); err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetErrorMessage() != "" {
		t.Fatal(m, err)
	}
	var drained sync.WaitGroup
	state := ""
	got := chunks(t, x, 3, func(x *tensor.Tensor, first, last bool) *tensor.Tensor {
		switch {
		case first:
			_, out := rest(t, urls[0], `"sequence_id":"a","sequence_start":true`, x, "")
			drained.Go(s.Drain)
			for s.Ready() {
				time.Sleep(time.Millisecond)
			}
			return out
		case !last:
			body, out := rest(t, urls[0], `"sequence_id":"a"`, x, "")
			if !strings.Contains(body, `"essmc_draining":true`) {
				t.Errorf("the answer does not say that the server drains: %s", body)
			}
			state = stateIn(t, body)
			return out
		}
		_, out := rest(t, urls[1], `"sequence_id":"a","sequence_start":true,"sequence_end":true`, x, stateInput(state))
		return out
	})
	if !tensor.Equal(got, want) {
		t.Error("the sequence has other outputs after it was handed over")
	}
	drained.Wait()
	m, err := stream.Recv()
	if err != nil || !m.GetInferResponse().GetParameters()["essmc_draining"].GetBoolParam() || m.GetInferResponse().GetOutputs()[0].GetName() != stateName {
		t.Fatal(m, err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Error(err)
	}
	r := asks(t, "m", "input", part(x, 3, 6))
	r.Inputs = append(r.Inputs, &pb.ModelInferRequest_InferInputTensor{Name: stateName, Datatype: "BYTES", Shape: []int64{1}})
	r.RawInputContents = append(r.RawInputContents, m.GetInferResponse().GetRawOutputContents()[0])
	next, err := pb.NewGRPCInferenceServiceClient(dial(t, other)).ModelInfer(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if !tensor.Equal(floats(t, next, 0), tensor.FromSlice(tensor.Data[float32](want)[9:18], 1, 3, 3)) {
		t.Error("the session has other outputs after it was handed over")
	}
	status, body, _ := ask(t, "POST", urls[0], `{"inputs":[]}`)
	if status != 503 {
		t.Errorf("a request after the end: %d %s", status, body)
	}
}

// Many sequences at the same time, with clients that come and go: no sequence gets another's outputs.
func TestManySequences(t *testing.T) {
	dir := t.TempDir()
	path := directory(t, filepath.Join(dir, "m"), 1, false, "none")
	s := start(t, Options{Dir: dir})
	m := truth(t, path)
	var wg sync.WaitGroup
	for i := range 16 {
		x := noise(uint64(i), 1, 20, 2)
		stream, err := m.NewStream(1)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for at := range 20 {
				in, want := map[string]tensor.Datum{"input": part(x, at, at+1)}, map[string]tensor.Datum{}
				if err := stream.Step(t.Context(), in, want); err != nil {
					t.Error(err)
					return
				}
				r := &request{model: "m", in: map[string]tensor.Datum{"input": part(x, at, at+1)}}
				r.params.sequence, r.params.start, r.params.end = fmt.Sprint(i), at == 0, at == 19
				out, err := s.infer(t.Context(), r, nil)
				if err != nil || !tensor.Equal(out.outputs[0].data, want["output"].(*tensor.Tensor)) {
					t.Errorf("sequence %d, step %d: other outputs than by itself, %v", i, at, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if s.sequences.count() != 0 {
		t.Errorf("%d sequences live", s.sequences.count())
	}
}

// A model that takes its state with each chunk streams by the pairs in serve.yaml.
func TestPairs(t *testing.T) {
	dir := t.TempDir()
	write(t, graph("(float[1,2] x, float[1,2] h) => (float[1,2] y, float[1,2] next)", "next = Add (x, h)\n y = Mul (next, next)"), dir, "m.txt")
	s := start(t, Options{Dir: dir, Model: map[string]ModelOptions{"m": {State: map[string]string{"h": "next"}}}})
	if why := s.repo.slots("m")["1"].v.why; why != "" {
		t.Fatal(why)
	}
	for i, want := range []float32{1, 4, 9} {
		r := &request{model: "m", in: map[string]tensor.Datum{"x": tensor.FromSlice([]float32{1, 2}, 1, 2)}}
		r.params.sequence, r.params.start = "a", i == 0
		out, err := s.infer(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.Data[float32](out.outputs[0].data)[0]; got != want {
			t.Errorf("step %d: expected %v, found %v", i, want, got)
		}
	}
}
