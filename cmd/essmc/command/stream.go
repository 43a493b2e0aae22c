package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/internal/atomicfile"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes/stepgraph"
	"github.com/essmc/essmc/runtime"
)

// streamFlags are the flags of the command stream.
type streamFlags struct {
	runFlags
	format            choice
	chunk             whole
	inputs            inputFlags
	output            string
	snapshot, restore string
	out               target
	asJSON            bool
}

func newStreamCommand() *cobra.Command {
	f := streamFlags{chunk: whole{1, 1}}
	cmd := &cobra.Command{
		Use:     "stream MODEL",
		Short:   "Process a sequence step by step, as it arrives",
		GroupID: groupRun,
		Long: `Stream reads the steps of a sequence from standard input and writes outputs to standard
output as they are computed. It keeps the model's state and not the sequence, so a
sequence can be endless.

A step is a line of numbers separated by commas, one per feature (--format csv), or as
many float32 numbers in little-endian order (--format f32). Outputs have the same
format: a line per step, or a line per chunk for models that summarize the sequence (a
mean, the last step), with the answer so far. Outputs of a model that looks ahead by a
few steps lag, and the last ones follow the end of the input.

--snapshot writes the stream's state at the end of the input, or on an interrupt.
--restore continues the sequence from it. Models that look ahead without bound, such as
bidirectional ones, cannot run as a stream; see essmc inspect.

--state is for models that take a sequence in chunks, and their state with each chunk,
such as recurrent ones in ONNX: output OUT of a chunk is input IN of the next, from
zeros. --chunk is then the size that the model requires; the last chunk is padded with
zeros. An output without a time dimension is one line per chunk. --input gives inputs
that are the same for all chunks.`,
		Example: `  essmc stream model.essm < steps.csv
  arecord -f FLOAT_LE -r 16000 | essmc stream speech.essm --format f32 --chunk 160
  essmc stream model.essm --snapshot day1.state < day1.csv
  essmc stream model.essm --restore day1.state --snapshot day2.state < day2.csv
  essmc stream model.essm --device cuda < steps.csv
  essmc stream vad.onnx --state state=stateN --input sr=16000 --chunk 512 --format f32 < speech.f32`,
		Args: args("MODEL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.asJSON && f.format.value != "csv" {
				return usagef("%s: --json writes text: expected --format csv, found %s", cmd.CommandPath(),
					f.format.value)
			}
			if err := f.out.check(f.snapshot, snapshotFile, args[0], f.inputs.files()...); err != nil {
				return err
			}
			model, err := f.compiled(cmd, args[0], nil)
			if err != nil {
				return err
			}
			defer model.Close()
			if err := f.stream(cmd, model); err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return nil
		},
	}
	modelCompletion(cmd)
	choiceVar(cmd, &f.format, "format", "format of steps and outputs: lines of numbers, or raw float32", "csv", "f32")
	cmd.Flags().Var(&f.chunk, "chunk", "number of steps to compute at once")
	cmd.Flags().StringVarP(&f.output, "output", "o", "", "`NAME` of the output to write, if there are several")
	cmd.Flags().StringVar(&f.snapshot, "snapshot", "", "write the final state to `FILE`")
	cmd.Flags().StringVar(&f.restore, "restore", "", "start from the state in `FILE`")
	f.out.register(cmd)
	jsonVar(cmd, &f.asJSON, "write a JSON object on a line for each step of the output")
	f.inputs.register(cmd)
	f.registerCarry(cmd)
	f.registerShapes(cmd)
	f.register(cmd)
	f.registerLow(cmd)
	return cmd
}

// stream reads steps, computes and writes until the input ends.
func (f *streamFlags) stream(cmd *cobra.Command, model *runtime.Model) error {
	c, err := newChunked(cmd.Context(), model, 1, f.chunk.value)
	if errors.Is(err, runtime.ErrStream) && model.Meta()[ir.MetaTime] == "" {
		return noTime(model)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := f.pipe(cmd, c, model)
	if err != nil {
		return err
	}
	if f.restore != "" {
		if err := restore(c.Stream, f.restore); err != nil {
			return err
		}
	}
	p.seen = c.Steps()
	ctx, records := cmd.Context(), p.records(cmd.Context(), cmd.InOrStdin())
	var pending []float64
	steps, interrupted := 0, false
	for !interrupted {
		var r record
		var ok bool
		select {
		case r, ok = <-records:
		case <-ctx.Done():
			interrupted = true
			continue
		}
		if !ok {
			break
		}
		if r.err != nil {
			return r.err
		}
		pending, steps = append(pending, r.values...), steps+1
		if steps == c.round(f.chunk.value) {
			if err := p.step(ctx, pending, steps); err != nil {
				return err
			}
			pending, steps = pending[:0], 0
		}
	}
	switch {
	case interrupted && (f.snapshot == "" || errors.Is(ctx.Err(), context.DeadlineExceeded)):
		return ctx.Err()
	case f.snapshot == "":
		return p.finish(ctx, pending, steps)
	}
	// The state is written even if an interrupt has canceled ctx.
	if steps > 0 {
		if steps%int(c.timing.Multiple) != 0 {
			return fmt.Errorf(
				"standard input: ends %d steps into a chunk, but this model takes multiples of %d, so there is no "+
					"state to write", steps, c.timing.Multiple)
		}
		if err := p.step(context.WithoutCancel(ctx), pending, steps); err != nil {
			return err
		}
	}
	b, err := c.Snapshot()
	if err != nil {
		return err
	}
	return atomicfile.Write(f.snapshot, func(w io.Writer) error { _, err := w.Write(b); return err })
}

// noTime is the error for a model of whole inputs.
func noTime(model *runtime.Model) error {
	example := "NAME=1,L,64"
	if ports := model.Inputs(); len(ports) > 0 {
		if t, ok := ir.AsTensor(ports[0].Type); ok && !t.NoRank {
			dims := slices.Repeat([]string{"_"}, len(t.Shape))
			if len(dims) > 1 {
				dims[1] = "L"
			}
			example = ports[0].Name + "=" + strings.Join(dims, ",")
		}
	}
	return fmt.Errorf("cannot run as a stream: none of its dimensions is time; essmc run computes whole inputs; if a "+
		"dimension is time, --shape %s names it L; if the model takes chunks and its own state, see --state", example)
}

// maxSnapshot bounds the size of a file with the state of one sequence.
const maxSnapshot = 1 << 30

func restore(s *runtime.Stream, file string) error {
	r, err := files.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	var head [8]byte
	if n, _ := io.ReadFull(r, head[:]); !runtime.IsSnapshot(head[:n]) { // before a large file is read
		return fmt.Errorf("%s: not a snapshot: expected a file that --snapshot has written", file)
	}
	b, err := io.ReadAll(io.MultiReader(bytes.NewReader(head[:]), io.LimitReader(r, maxSnapshot+1-int64(len(head)))))
	if err == nil && len(b) > maxSnapshot {
		err = fmt.Errorf("is larger than %d bytes", maxSnapshot)
	}
	if err == nil {
		err = s.Restore(b)
	}
	var other *runtime.SnapshotError
	if errors.As(err, &other) && other.Have != "" {
		return fmt.Errorf("%s: %w; models differ if their --device, --shape, --state, sampling rate or passes differ",
			file, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// pipe passes numbers from standard input to a stream, and outputs to standard output.
type pipe struct {
	c      *chunked
	raw    bool
	asJSON bool
	rows   int64 // written as JSON
	in     runtime.Port
	shape  []int                   // shape of a chunk, except for the number of steps
	axis   int                     // axis of time; -1: each chunk is a step
	width  int                     // numbers per step
	fixed  map[string]tensor.Datum // inputs that are the same for all chunks
	output stepgraph.Output
	seen   int64 // number of steps before the chunk
	w      io.Writer
}

// pipe finds the input for the steps, and the output to write.
func (f *streamFlags) pipe(cmd *cobra.Command, c *chunked, model *runtime.Model) (*pipe, error) {
	given, err := f.inputs.readSome(cmd, model, c.Inputs())
	if err != nil {
		return nil, err
	}
	p := &pipe{c: c, raw: f.format.value == "f32", asJSON: f.asJSON, w: cmd.OutOrStdout(), axis: -1, fixed: given.Data}
	var open []runtime.Port // inputs that may take the steps
	for _, q := range c.Inputs() {
		if _, varies := c.axes[q.Name]; given.Data[q.Name] == nil && (varies || !q.Optional) {
			open = append(open, q)
		}
	}
	if i := slices.IndexFunc(open, func(q runtime.Port) bool { _, varies := c.axes[q.Name]; return varies }); i >= 0 {
		p.in, p.axis = open[i], c.axes[open[i].Name]
		open = slices.Delete(open, i, i+1)
	} else if len(open) == 1 { // the model takes chunks of one size: each is a step
		p.in, open = open[0], nil
		if f.chunk.value != 1 {
			return nil, fmt.Errorf(
				"input %q: has no time dimension, so a chunk is one step, found --chunk %d; --shape NAME=…,L,… names "+
					"a variable one", p.in.Name, f.chunk.value)
		}
	}
	if len(open) > 0 {
		q := open[0]
		if _, varies := c.axes[q.Name]; varies {
			return nil, fmt.Errorf("has several inputs with a time dimension, %q and %q; stream supports one",
				p.in.Name, q.Name)
		}
		return nil, fmt.Errorf(
			"needs input %q besides the steps: --input %s=VALUE, or --state %s=OUTPUT if it is a state", q.Name, q.Name,
			q.Name)
	}
	for name := range given.Data {
		if _, varies := c.axes[name]; varies {
			return nil, fmt.Errorf("input %q comes from standard input", name)
		}
	}
	t, ok := p.in.Type.(*ir.TensorType)
	if !ok || t.NoRank {
		return nil, fmt.Errorf("input %q: stream supports tensors with a known number of dimensions, found %v",
			p.in.Name, p.in.Type)
	}
	p.width = 1
	for axis, d := range t.Shape {
		n, known := d.Known()
		if d.IsUnknown() || p.axis < 0 && !known && axis > 0 {
			return nil, fmt.Errorf("input %q: dimension %d of %v is not known: --shape %s=DIM,…", p.in.Name, axis, t,
				p.in.Name)
		}
		if _, plain := d.Symbol(); !known && !plain && axis != p.axis {
			return nil, fmt.Errorf("input %q: takes several sequences at once, %v; stream supports one", p.in.Name, t)
		}
		if !known { // one sample with its steps
			n = 1
		}
		p.shape = append(p.shape, int(n))
		if axis != p.axis {
			p.width *= int(n)
		}
	}
	if slices.ContainsFunc(p.shape[:max(p.axis, 0)], func(n int) bool { return n != 1 }) {
		return nil, fmt.Errorf("input %q: features come before steps in %v, which stream does not support", p.in.Name,
			t)
	}
	if !t.Elem.IsFloat() && !t.Elem.IsInt() || t.Elem.Packed() {
		return nil, fmt.Errorf("input %q: stream supports numbers, found %v", p.in.Name, t.Elem)
	}
	outs := c.timing.Outputs
	i := slices.IndexFunc(outs, func(o stepgraph.Output) bool { return o.Name == f.output || f.output == "" })
	if i < 0 || f.output == "" && len(outs) > 1 {
		var names []string
		for _, o := range outs {
			names = append(names, o.Name)
		}
		if i < 0 {
			return nil, fmt.Errorf("a stream has no output %q; it has %s", f.output, strings.Join(names, ", "))
		}
		return nil, fmt.Errorf("has several outputs, %s; choose one by --output NAME", strings.Join(names, ", "))
	}
	p.output = outs[i]
	return p, nil
}

// record is one step, or an error.
type record struct {
	values []float64
	err    error
}

// records reads steps until the input or ctx ends.
func (p *pipe) records(ctx context.Context, r io.Reader) <-chan record {
	ch := make(chan record, 256)
	go func() {
		defer close(ch)
		send := func(v []float64, err error) bool {
			if err != nil {
				err = fmt.Errorf("standard input: %w", err)
			}
			select {
			case ch <- record{v, err}:
				return err == nil
			case <-ctx.Done():
				return false
			}
		}
		if p.raw {
			p.readRaw(r, send)
		} else {
			p.readLines(r, send)
		}
	}()
	return ch
}

// maxLine bounds the bytes of a step as text.
const maxLine = 16 << 20

func (p *pipe) readLines(r io.Reader, send func([]float64, error) bool) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		fields := strings.Split(text, ",")
		if err := otherFormat(lines.Bytes()); n == 1 && err != nil {
			send(nil, err)
			return
		}
		if len(fields) != p.width {
			send(nil, fmt.Errorf("line %d: expected %s, found %d", n, plural(p.width, "number"), len(fields)))
			return
		}
		v := make([]float64, len(fields))
		for i, s := range fields {
			x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
			if err != nil && !errors.Is(err, strconv.ErrRange) {
				send(nil, fmt.Errorf("line %d: expected a number, found %q", n, s))
				return
			}
			v[i] = x
		}
		if !send(v, nil) {
			return
		}
	}
	if err := lines.Err(); err != nil {
		send(nil, err)
	}
}

func (p *pipe) readRaw(r io.Reader, send func([]float64, error) bool) {
	in, b := bufio.NewReaderSize(r, 64<<10), make([]byte, 4*p.width)
	for first := true; ; first = false {
		n, err := io.ReadFull(in, b)
		other := otherFormat(b[:min(n, 4)])
		switch {
		case first && n >= 4 && other != nil:
			send(nil, other)
			return
		case errors.Is(err, io.ErrUnexpectedEOF):
			send(nil, fmt.Errorf("ends within a step: expected %d bytes, found %d", len(b), n))
			return
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			send(nil, err)
			return
		}
		v := make([]float64, p.width)
		for i := range v {
			v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])))
		}
		if !send(v, nil) {
			return
		}
	}
}

// step computes a chunk within the sequence, and writes its outputs.
func (p *pipe) step(ctx context.Context, values []float64, steps int) error {
	return p.run(ctx, values, steps, p.seen+int64(steps), false)
}

// run computes a chunk of n steps of a sequence, which has length steps so far. values may be shorter than the chunk.
func (p *pipe) run(ctx context.Context, values []float64, n int, length int64, ended bool) error {
	shape := slices.Clone(p.shape)
	if p.axis >= 0 {
		shape[p.axis] = n
	}
	all := make([]float64, n*p.width)
	copy(all, values)
	elem := p.in.Type.(*ir.TensorType).Elem
	if elem.IsInt() {
		for _, v := range values {
			if v != math.Trunc(v) || math.Abs(v) > 1<<53 {
				return fmt.Errorf("standard input: input %q: expected integers, found %v", p.in.Name, v)
			}
		}
	}
	x, err := tensor.FromFloat64s(elem, all, shape...)
	if err != nil {
		return fmt.Errorf("input %q: %w", p.in.Name, err)
	}
	in, out := map[string]tensor.Datum{p.in.Name: x}, map[string]tensor.Datum{}
	maps.Copy(in, p.fixed)
	if ended {
		p.c.end(in, int(length))
	}
	before := p.c.Steps()
	if err := p.c.Step(ctx, in, out); err != nil {
		return err
	}
	p.seen = p.c.Steps()
	t, ok := out[p.output.Name].(*tensor.Tensor)
	if !ok {
		return fmt.Errorf("output %q is not a tensor, and cannot be written", p.output.Name)
	}
	if p.output.Kind != stepgraph.Sequence {
		return p.write(t, 1)
	}
	if slices.ContainsFunc(t.Shape()[:p.output.Axis], func(n int) bool { return n != 1 }) {
		return fmt.Errorf("output %q: features come before steps in %s, which stream does not support", p.output.Name,
			t)
	}
	// The steps of the output that belong to the sequence: those before Delay have no meaning, and those after the
	// sequence's end neither.
	first := before / p.output.Rate
	lo := min(max(0, p.output.Delay-first), int64(t.Dim(p.output.Axis)))
	hi := int64(t.Dim(p.output.Axis))
	if ended {
		hi = min(hi, max(lo, p.output.Delay+p.output.Steps(length)-first))
	}
	return p.write(section(t, p.output.Axis, int(lo), int(hi)), int(hi-lo))
}

// finish computes the remaining outputs after the end of the sequence.
func (p *pipe) finish(ctx context.Context, values []float64, steps int) error {
	length, flush := p.seen+int64(steps), int(p.c.timing.Flush)
	if length == 0 || steps == 0 && flush == 0 {
		return nil
	}
	return p.run(ctx, values, p.c.round(steps+flush), length, true)
}

// write writes rows of an output, and flushes.
func (p *pipe) write(t *tensor.Tensor, rows int) error {
	v, err := t.Float64s()
	if err != nil {
		return fmt.Errorf("output %q: %w", p.output.Name, err)
	}
	if len(v) == 0 {
		return nil
	}
	if p.asJSON {
		return p.writeObjects(t, v, rows)
	}
	var b []byte
	for i, x := range v {
		switch {
		case p.raw:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(x)))
			continue
		case t.DType() == tensor.Float64:
			b = strconv.AppendFloat(b, x, 'g', -1, 64)
		default:
			b = strconv.AppendFloat(b, x, 'g', -1, 32)
		}
		if (i+1)%(len(v)/rows) == 0 {
			b = append(b, '\n')
		} else {
			b = append(b, ',')
		}
	}
	_, err = p.w.Write(b)
	return err
}

// stepReport is what stream --json writes for a step of the output, counted from 0 since the command began.
type stepReport struct {
	Output string `json:"output"`
	Step   int64  `json:"step"`
	Values any    `json:"values"`
}

// writeObjects writes an object for each row of an output.
func (p *pipe) writeObjects(t *tensor.Tensor, v []float64, rows int) error {
	width := len(v) / rows
	for i := range rows {
		row := v[i*width : (i+1)*width]
		r := stepReport{Output: p.output.Name, Step: p.rows}
		if t.DType() == tensor.Float64 {
			list := make([]number, width)
			for k, x := range row {
				list[k] = number(x)
			}
			r.Values = list
		} else {
			list := make([]single, width)
			for k, x := range row {
				list[k] = single(x)
			}
			r.Values = list
		}
		if err := writeLine(p.w, r); err != nil {
			return err
		}
		p.rows++
	}
	return nil
}
