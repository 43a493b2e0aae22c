// Command ort is a peer of the benchmarks: models on ONNX Runtime, called from Go by onnxruntime_go. It has its own
// go.mod and needs a C compiler; the project itself needs neither.
//
//	ort LIBRARY
//
// LIBRARY is ONNX Runtime's shared library. It answers the requests load, run, save and drop of ../protocol.py, and
// of the kinds in ../ort.py only
//
//	load model FILE.onnx THREADS NAME=FILE.npy …
//
// Inputs and outputs are bound beforehand.
package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir/tensor"
	onnx "github.com/yalue/onnxruntime_go"
)

// settle is the time within which threads that wait for work by spinning fall asleep: until then they would take part in
// another job.
const settle = 50 * time.Millisecond

func main() {
	if err := serve(); err != nil {
		fmt.Printf("error\t%s\n", oneLine(err))
		os.Exit(1)
	}
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// peer is the jobs that are there; those that were dropped are nil.
type peer struct {
	jobs []*job
	last int // the job that ran last; -1: none
}

func serve() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: ort LIBRARY")
	}
	out := os.Stdout
	os.Stdout = os.Stderr
	onnx.SetSharedLibraryPath(os.Args[1])
	if err := onnx.InitializeEnvironment(onnx.WithLogLevelFatal()); err != nil {
		return err
	}
	fmt.Fprintf(out, "ready\tONNX Runtime %s by onnxruntime_go %s\n", onnx.GetVersion(), moduleVersion())
	p := &peer{last: -1}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		words, err := p.handle(strings.Split(in.Text(), "\t"))
		answer := strings.Join(append([]string{"ok"}, words...), "\t")
		if err != nil {
			answer = "error\t" + oneLine(err)
		}
		fmt.Fprintln(out, answer)
	}
	return in.Err()
}

func moduleVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == "github.com/yalue/onnxruntime_go" {
				return m.Version
			}
		}
	}
	return "(unknown version)"
}

func (p *peer) handle(words []string) ([]string, error) {
	if len(words) >= 4 && words[0] == "load" && words[1] == "model" {
		threads, err := strconv.Atoi(words[3])
		if err != nil {
			return nil, err
		}
		j, err := load(words[2], threads, words[4:])
		if err != nil {
			return nil, err
		}
		p.jobs = append(p.jobs, j)
		return []string{strconv.Itoa(len(p.jobs) - 1)}, nil
	}
	if len(words) < 2 {
		return nil, fmt.Errorf("unknown request %q", words)
	}
	id, err := strconv.Atoi(words[1])
	if err != nil || id < 0 || id >= len(p.jobs) || p.jobs[id] == nil {
		return nil, fmt.Errorf("no such job: %s", words[1])
	}
	switch {
	case words[0] == "run" && len(words) == 3:
		reps, err := strconv.Atoi(words[2])
		if err != nil {
			return nil, err
		}
		if p.last >= 0 && p.last != id {
			time.Sleep(settle)
		}
		p.last = id
		start, cpu := time.Now(), processorTime()
		for range reps {
			if err := p.jobs[id].run(); err != nil {
				return nil, err
			}
		}
		wall := time.Since(start)
		return []string{strconv.FormatInt(int64(wall), 10), strconv.FormatInt(int64(processorTime()-cpu), 10)}, nil
	case words[0] == "save" && len(words) == 3:
		if err := p.jobs[id].run(); err != nil {
			return nil, err
		}
		t, err := array(p.jobs[id].out[0])
		if err != nil {
			return nil, err
		}
		return nil, arrays.Write(words[2], t)
	case words[0] == "drop" && len(words) == 2:
		err := p.jobs[id].close()
		p.jobs[id] = nil
		return nil, err
	}
	return nil, fmt.Errorf("unknown request %q", words)
}

// job is a session with what its inputs and outputs are bound to.
type job struct {
	session *onnx.DynamicAdvancedSession
	binding *onnx.IoBinding
	in, out []onnx.Value
}

func (j *job) run() error { return j.session.RunWithBinding(j.binding) }

// load opens a file; words say which arrays its inputs are.
func load(file string, threads int, words []string) (j *job, err error) {
	o, err := onnx.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	defer o.Destroy()
	if err := o.SetIntraOpNumThreads(threads); err != nil {
		return nil, err
	}
	if err := o.SetInterOpNumThreads(1); err != nil {
		return nil, err
	}
	_, results, err := onnx.GetInputOutputInfo(file)
	if err != nil {
		return nil, err
	}
	j = &job{}
	defer func() {
		if err != nil {
			_ = j.close() // the first error counts
			j = nil
		}
	}()
	var ins, outs []string
	for _, w := range words {
		name, npy, ok := strings.Cut(w, "=")
		if !ok {
			return j, fmt.Errorf("expected NAME=FILE.npy, found %q", w)
		}
		x, err := arrays.Read(npy)
		if err != nil {
			return j, err
		}
		v, err := value(x.Tensor)
		if err != nil {
			return j, fmt.Errorf("%s: %w", npy, err)
		}
		ins, j.in = append(ins, name), append(j.in, v)
	}
	for _, r := range results {
		outs = append(outs, r.Name)
	}
	if j.session, err = onnx.NewDynamicAdvancedSession(file, ins, outs, o); err != nil {
		return j, err
	}
	j.out = make([]onnx.Value, len(outs))
	if err := j.session.Run(j.in, j.out); err != nil { // which makes the outputs
		return j, err
	}
	if j.binding, err = j.session.CreateIoBinding(); err != nil {
		return j, err
	}
	for i, name := range ins {
		if err := j.binding.BindInput(name, j.in[i]); err != nil {
			return j, err
		}
	}
	for i, name := range outs {
		if err := j.binding.BindOutput(name, j.out[i]); err != nil {
			return j, err
		}
	}
	return j, nil
}

func (j *job) close() error {
	var first error
	note := func(err error) {
		if first == nil {
			first = err
		}
	}
	if j.binding != nil {
		note(j.binding.Destroy())
	}
	if j.session != nil {
		note(j.session.Destroy())
	}
	for _, list := range [][]onnx.Value{j.in, j.out} {
		for _, v := range list {
			if v != nil {
				note(v.Destroy())
			}
		}
	}
	return first
}

// value is a tensor for ONNX Runtime, which counts element types as ir/tensor does.
func value(t *tensor.Tensor) (onnx.Value, error) {
	shape := onnx.NewShape()
	for _, n := range t.Shape() {
		shape = append(shape, int64(n))
	}
	if t.DType() == tensor.String {
		return nil, fmt.Errorf("strings cannot be given to ONNX Runtime here")
	}
	if len(shape) == 0 { // the package has scalars of Go's types alone
		switch t.DType() {
		case tensor.Int64:
			return onnx.NewScalar(tensor.Data[int64](t)[0])
		case tensor.Float32:
			return onnx.NewScalar(tensor.Data[float32](t)[0])
		}
		return nil, fmt.Errorf("a scalar of type %v cannot be given to ONNX Runtime here", t.DType())
	}
	return onnx.NewCustomDataTensor(shape, t.Bytes(), onnx.TensorElementDataType(t.DType()))
}

// array is a tensor of ONNX Runtime.
func array(v onnx.Value) (*tensor.Tensor, error) {
	var shape []int
	for _, n := range v.GetShape() {
		shape = append(shape, int(n))
	}
	switch v := v.(type) {
	case *onnx.Tensor[float32]:
		return tensor.FromSlice(v.GetData(), shape...), nil
	case *onnx.Tensor[float64]:
		return tensor.FromSlice(v.GetData(), shape...), nil
	case *onnx.Tensor[int64]:
		return tensor.FromSlice(v.GetData(), shape...), nil
	}
	return nil, fmt.Errorf("an output of type %T cannot be written", v)
}
