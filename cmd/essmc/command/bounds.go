package command

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/frontend/open"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// bounds are the flags that bound the memory and the time of a command.
type bounds struct {
	memory  byteFlag
	timeout period
}

// registerBounds adds the flags. The command's RunE is set: it runs with a deadline, and its errors name the flags.
func (b *bounds) registerBounds(cmd *cobra.Command) {
	cmd.Flags().Var(&b.memory, "max-memory", "refuse models and runs that need more memory than `SIZE`, as in 512MiB "+
		"or 2GB (default: the machine's)")
	cmd.Flags().Var(&b.timeout, "timeout", "end with an error after `DURATION`, as in 30s or 5m")
	complete(cmd, "max-memory", cobra.NoFileCompletions)
	complete(cmd, "timeout", cobra.NoFileCompletions)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if b.timeout.value > 0 {
			ctx, cancel := context.WithTimeout(cmd.Context(), b.timeout.value)
			defer cancel()
			cmd.SetContext(ctx)
		}
		return b.about(run(cmd, args))
	}
}

// about adds the flag to an error that it caused.
func (b *bounds) about(err error) error {
	var run *runtime.MemoryError
	var file *files.LimitError
	switch {
	case err == nil:
		return nil
	case b.timeout.value > 0 && errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("stopped by --timeout after %v; no file was written; try a longer time", b.timeout.value)
	case b.memory.value > 0 && b.memory.value < total() && (errors.As(err, &run) || errors.As(err, &file)):
		return fmt.Errorf("%w; raise --max-memory %s", err, b.memory.text)
	case errors.As(err, &run) && run.Limit == ram.Total():
		return fmt.Errorf("%w, the memory of this machine", err)
	}
	return err
}

// total is the machine's memory, or more than any if it is not known.
func total() int64 {
	if n := ram.Total(); n > 0 {
		return n
	}
	return math.MaxInt64
}

// limits returns the limits for a file.
func (b *bounds) limits() open.Limits {
	return open.Limits{Bytes: b.memory.value, Memory: b.memory.value}
}

// checkFile refuses a file that is larger than the memory, before it is read. Folders are bounded when they are read.
func (b *bounds) checkFile(path string) error {
	st, err := files.Stat(path)
	if b.memory.value == 0 || err != nil || !st.Mode().IsRegular() || st.Size() <= b.memory.value {
		return nil // the error when reading is clearer
	}
	return fmt.Errorf("%s: %w", path, &files.LimitError{Size: st.Size(), Limit: b.memory.value})
}

// checkWeights refuses weights of more bytes than the memory.
func (b *bounds) checkWeights(name string, n int64) error {
	if b.memory.value == 0 || n <= b.memory.value {
		return nil
	}
	return fmt.Errorf("%s: %w", name, &files.LimitError{Size: n, Limit: b.memory.value})
}

// left returns the memory for runs: the machine's, or what the weights of the model leave of --max-memory.
func (b *bounds) left(m *open.Model) (int64, error) {
	if b.memory.value == 0 {
		return ram.Total(), nil
	}
	weights, err := weightBytes(m)
	if err != nil {
		return 0, err
	}
	if err := b.checkWeights(m.Name, weights); err != nil {
		return 0, err
	}
	return min(max(b.memory.value-weights, 1), total()), nil
}

// weightBytes returns the size of a model's weights. Those of a plan are its file.
func weightBytes(m *open.Model) (int64, error) {
	if m.Kind == open.Plan {
		st, err := files.Stat(m.Name)
		if err != nil {
			return 0, err
		}
		return st.Size(), nil
	}
	g, err := m.Source()
	if err != nil {
		return 0, err
	}
	return graphBytes(g), nil
}

// graphBytes returns the size of the constants of a graph and its subgraphs, and of its parameters. Strings count as
// nothing.
func graphBytes(g *ir.Graph) (n int64) {
	for _, t := range weightsOf(g) {
		if t.DType() != tensor.String {
			n += int64(tensor.ByteSize(t.DType(), t.Len()))
		}
	}
	return n
}

// maxMemory returns the value of --max-memory; 0 if the command does not have it, or it is not given.
func maxMemory(cmd *cobra.Command) int64 {
	f := cmd.Flags().Lookup("max-memory")
	if f == nil {
		return 0
	}
	return f.Value.(*byteFlag).value
}

// checkRandom refuses random inputs that are larger than --max-memory, in commands that have it.
func checkRandom(cmd *cobra.Command, model *runtime.Model, given map[string]tensor.Datum, dims map[string]int64) error {
	limit := maxMemory(cmd)
	if limit == 0 {
		return nil
	}
	sum := int64(0)
	for _, p := range model.Inputs() {
		t, ok := p.Type.(*ir.TensorType)
		if !ok || p.Optional || given[p.Name] != nil {
			continue
		}
		shape, err := sizes(t, dims)
		if err != nil {
			return nil // randomInputs says more
		}
		n := int64(max(t.Elem.Bits(), 8) / 8)
		for _, d := range shape {
			n *= int64(d)
		}
		if sum += n; sum > limit {
			return fmt.Errorf("input %q: %w", p.Name, &files.LimitError{Size: sum, Limit: limit})
		}
	}
	return nil
}

// byteFlag is a flag for a number of bytes, in any unit.
type byteFlag struct {
	value int64
	text  string // as it was typed
}

// byteUnits are the units of sizes.
var byteUnits = map[string]float64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40}

func (s *byteFlag) String() string { return s.text }
func (s *byteFlag) Type() string   { return "SIZE" }
func (s *byteFlag) Set(text string) error {
	digits := strings.TrimRight(text, "BKMGTibkmgt ")
	unit, ok := byteUnits[strings.ToLower(strings.TrimSpace(text[len(digits):]))]
	v, err := strconv.ParseFloat(digits, 64)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 { // floats are not exact
		s.value, s.text = n, text
		return nil
	}
	if v *= unit; !ok || err != nil || !(v >= 1 && v < 1<<62) {
		return fmt.Errorf("expected a size above 0, as in 512MiB, 2GB or 1073741824")
	}
	s.value, s.text = int64(v), text
	return nil
}

// period is a flag for a time above 0.
type period struct{ value time.Duration }

func (p *period) String() string {
	if p.value == 0 {
		return ""
	}
	return p.value.String()
}
func (p *period) Type() string { return "DURATION" }
func (p *period) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return fmt.Errorf("expected a time above 0, as in 30s, 5m or 1h30m")
	}
	p.value = d
	return nil
}
