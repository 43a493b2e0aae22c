package lowering

import (
	"context"
	"errors"
	"math"
	"slices"
	"unsafe"

	"github.com/essmc/essmc/internal/ram"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/ops/eval"
	"github.com/essmc/essmc/runtime"
)

// memory is the account of an executable, and of those of the programs within it. Everything that they hold, and
// everything that their runs allocate, is charged to one budget before it is allocated. Data of a run are charged
// when they are created. They are released when the run ends, or when the budget is full: then only live data are
// counted.
type memory struct {
	budget *ir.Budget
	steps  ir.EvalCtx // ends long work at the context of the run, or of Bind
	held   int64      // bytes held between runs
	data   int64      // bytes of the run's data, dead or alive
	top    *Frame     // the innermost frame that runs
	freed  int64      // bytes of dropped spares
	spares []*spare
	seen   map[*byte]int64
	count  func()    // countAlive
	pace   *ir.Pacer // of nodes while they are bound; ends with steps
}

// spare is memory that a frame keeps only for its next run. drop releases it, and reports whether it is gone.
type spare struct {
	f    *Frame
	drop func() bool
}

// newMemory returns an account in the given budget, or in one of its own for nil.
func newMemory(b *ir.Budget, c *runtime.Config) *memory {
	if b == nil {
		b = ir.NewBudget(MemoryLimit(c.MaxMemory), -1)
	}
	m := &memory{budget: b}
	m.count = m.countAlive
	return m
}

// pacing lets nodes that are bound end their operators' functions with the context, until end is called.
func (m *memory) pacing() (end func()) {
	outer := m.pace
	m.pace = ir.NewPacer(m.steps.Pause)
	return func() {
		m.pace.Stop()
		m.pace = outer
	}
}

// MemoryLimit is the number of bytes that an executable may hold, including the data of its runs: the requested
// number (runtime.Config.MaxMemory), or the machine's memory if that is known.
func MemoryLimit(asked int64) int64 { return memoryLimit(asked, ram.Total()) }

func memoryLimit(asked, machine int64) int64 {
	switch {
	case asked > 0:
		return asked
	case machine > 0:
		return min(machine, mostBytes)
	}
	return mostBytes
}

// refused returns a MemoryError for a budget that what exceeds. Other errors are returned unchanged.
func refused(err error, what string) error {
	if err == nil {
		return nil
	}
	var over *ir.BudgetError // escapes to the heap, so it is declared after the return above
	if errors.As(err, &over) && !over.Work {
		return &runtime.MemoryError{Need: over.Need(), Limit: over.Limit, What: what + ", with memory already held,"}
	}
	return err
}

// Recovered returns the error of a step for the value of a panic: a *runtime.MemoryError for bytes that exceed the
// budget.
func (s *Step) Recovered(panicked any) error {
	if over, ok := panicked.(*ir.BudgetError); ok {
		return &runtime.NodeError{Node: s.Source, Err: refused(over, "its result")}
	}
	return runtime.Recovered(s.Source, panicked)
}

// Build calls build, which makes an executable of d or of a program within it. If build fails, or exceeds the
// budget, its charges are released. If it exceeds the budget, the error is a *runtime.MemoryError.
func (d *Binding) Build(build func() error) (err error) {
	m := d.memory
	defer m.pacing()()
	before, freed := m.held, m.freed
	undo := func() { m.hold(before - m.held - (m.freed - freed)) }
	defer func() {
		if v := recover(); v != nil {
			over, ok := v.(*ir.BudgetError)
			if !ok {
				undo()
				panic(v)
			}
			err = refused(over, "the plan of graph "+d.Program.Graph.Name)
		}
		if err != nil {
			undo()
		}
	}()
	return build()
}

// hold adds to the held bytes, whether they fit or not.
func (m *memory) hold(bytes int64) {
	m.held += bytes
	m.budget.Hold(bytes)
}

// take charges bytes that are held between runs. The error is an *ir.BudgetError.
func (m *memory) take(bytes int64) error {
	if err := m.budget.Take(bytes); err != nil {
		return err
	}
	m.held += bytes
	return nil
}

// Charge charges bytes that an executable of d holds, such as tables of a kernel, before they are allocated. If they
// do not fit, it panics with an *ir.BudgetError, which Build and Step.Recovered turn into errors.
//
// Up to allowance, bytes are charged whether they fit or not. The plan, which is charged last, is then refused with
// the total that it needs.
func (d *Binding) Charge(bytes int64) {
	if d.charged+bytes <= allowance {
		d.memory.hold(bytes)
	} else if err := d.memory.take(bytes); err != nil {
		panic(err)
	}
	d.charged += bytes
}

const allowance = 1 << 22

// Room returns the number of bytes that Charge would accept.
func (d *Binding) Room() int64 {
	left, _ := d.memory.budget.Left()
	return max(left, allowance-d.charged)
}

// Steps returns a context that ends long work during the making of an executable of d, when the context of
// runtime.Binding or of the current run is done (ops.Each and the like).
func (d *Binding) Steps() *ir.EvalCtx { return &d.memory.steps }

// Evaluate computes a node without subgraphs while an executable of d is made, see Steps.
func (d *Binding) Evaluate(n *ir.Node, in []tensor.Datum) ([]tensor.Datum, error) {
	ctx := d.Steps().Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	out, err := eval.Options{}.Node(ctx, n, in, nil)
	if err != nil {
		d.Steps().Pause()
	}
	return out, err
}

// Bound ends the making of the executable: its context is no longer used.
func (d *Binding) Bound() { d.memory.steps.Ctx = nil }

// Charged returns the bytes that Charge has charged.
func (d *Binding) Charged() int64 { return d.charged }

// Discharge releases the bytes charged since Charged returned mark.
func (d *Binding) Discharge(mark int64) {
	d.memory.hold(mark - d.charged)
	d.charged = mark
}

// flat types have no pointers.
type flat interface {
	int | int32 | int64 | float32 | float64 | complex128 | essm.Span
}

// Make is make([]T, n) for memory that an executable of d holds; see Binding.Charge and Binding.Steps.
func Make[T flat](d *Binding, n int) []T {
	var z T
	size := bytesOf(n, int(unsafe.Sizeof(z)))
	if d.Charge(size); n == 0 {
		return nil
	}
	b := tensor.AlignedParts(int(size), d.Steps().Pause)
	return unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
}

// Offsets returns the offsets that ops.Walk visits, as a table that an executable of d holds.
func Offsets[T int | int32](d *Binding, shape, strides []int, first int) []T {
	n, err := tensor.Size(shape)
	if err != nil {
		d.Charge(math.MaxInt64 / 2)
	}
	list := Make[T](d, n)[:0]
	ops.Walk(d.Steps(), shape, strides, first, func(o int) { list = append(list, T(o)) })
	return list
}

// bytesOf returns the size of n elements, or a number above every budget if it overflows.
func bytesOf(n, size int) int64 {
	if n < 0 || size > 0 && int64(n) > math.MaxInt64/2/int64(size) {
		return math.MaxInt64 / 2
	}
	return int64(n) * int64(size)
}

// Hold charges bytes of working memory before they are allocated. They stay charged until Release. The error is a
// *runtime.MemoryError.
func (f *Frame) Hold(bytes int64, what string) error {
	if bytes > mostBytes {
		return &runtime.MemoryError{Need: bytes, Limit: min(f.memory.budget.Limit(), mostBytes), What: what}
	}
	if err := f.memory.take(bytes); err != nil {
		var over *ir.BudgetError
		if errors.As(err, &over) { // report the total that the plan needs
			return &runtime.MemoryError{Need: over.Need(), Limit: over.Limit, What: what}
		}
		return err
	}
	f.own += bytes
	return nil
}

// Release releases the charges of Hold and Binding.Charge for f, whose executable must not be used again.
func (f *Frame) Release() {
	if m := f.memory; m != nil {
		m.spares = slices.DeleteFunc(m.spares, func(s *spare) bool { return s.f == f })
		f.release(f.own)
		f.Binding.Discharge(0)
	}
}

// Unhold releases bytes that Hold has charged.
func (f *Frame) Unhold(bytes int64) { f.release(bytes) }

// release releases some of them; a negative number charges more, whether it fits or not.
func (f *Frame) release(bytes int64) {
	f.memory.hold(-bytes)
	f.own -= bytes
}

// Held returns the bytes that the executable, and those around and within it, hold between runs.
func (f *Frame) Held() int64 {
	if f.memory == nil {
		return 0
	}
	return f.memory.held
}

// Take charges bytes of data of a run before they are allocated. They stay charged until the data are found to be
// dead, or the run ends. The error is a *runtime.MemoryError that contains what.
func (f *Frame) Take(bytes int64, what string) error { return refused(f.take(bytes), what) }

// take is Take with an *ir.BudgetError.
func (f *Frame) take(bytes int64) error {
	if err := f.memory.budget.Take(bytes); err != nil {
		return err
	}
	f.memory.data += bytes
	return nil
}

// enter makes f the frame that runs.
func (m *memory) enter(f *Frame) {
	f.under = m.top
	if m.top = f; f.under == nil {
		m.budget.WhenFull(m.count)
	}
}

// leave ends the run of f, and of frames within it.
func (m *memory) leave(f *Frame) {
	if m.top = f.under; m.top != nil {
		return
	}
	m.budget.WhenFull(nil)
	m.budget.Release(m.data)
	m.data = 0
	clear(m.seen)
}

// countAlive releases the data that no frame refers to, and the spares for further runs.
func (m *memory) countAlive() {
	m.dropSpares()
	if m.seen == nil {
		m.seen = map[*byte]int64{}
	}
	clear(m.seen)
	for f := m.top; f != nil; f = f.under {
		f.others(func(d tensor.Datum) { m.alive(d) })
	}
	live := int64(0)
	for f := m.top; f != nil; f = f.under {
		f.mine(func(d tensor.Datum) { live += m.alive(d) })
		for _, t := range f.text {
			live += m.lengths(t)
		}
	}
	if live < m.data { // parts of one tensor may be counted several times
		m.budget.Release(m.data - live)
		m.data = live
	}
}

// dropSpares releases the spares that no run uses. Dropping one may drop others with it.
func (m *memory) dropSpares() {
	before := m.held
	for i := 0; i < len(m.spares); i++ {
		s := m.spares[i]
		if s.drop() {
			m.spares = slices.DeleteFunc(m.spares, func(o *spare) bool { return o == s })
			i = -1
		}
	}
	m.freed += before - m.held
}

// alive returns the bytes of a datum that have not been counted yet and are not in an arena.
func (m *memory) alive(d tensor.Datum) int64 {
	switch d := d.(type) {
	case *tensor.Tensor:
		if d == nil {
			return 0
		}
		var at *byte
		if b := d.Bytes(); len(b) > 0 {
			at = &b[0]
			for f := m.top; f != nil; f = f.under {
				if overlap(b, f.Memory) {
					return 0
				}
			}
		} else if s := d.Strings(); len(s) > 0 {
			at = (*byte)(unsafe.Pointer(&s[0]))
		}
		if at == nil || m.seen[at] > 0 {
			return 0
		}
		m.seen[at] = ops.SizeIn(&m.steps, d)
		return m.seen[at]
	case *tensor.Sequence:
		if d == nil || len(d.Items) == 0 {
			return 0
		}
		// Sequences that grow share their list.
		at := (*byte)(unsafe.Pointer(&d.Items[0]))
		n := max(0, ops.ItemSize*int64(len(d.Items))-m.seen[at])
		m.seen[at] += n
		for i := range ops.Costly(&m.steps, len(d.Items), 50) {
			n += m.alive(d.Items[i])
		}
		return n
	case *tensor.Optional:
		if d != nil {
			return m.alive(d.Value)
		}
	}
	return 0
}

// others visits data that the run has not made: known before the run, given by the caller, and tensors of the caller
// to write to.
func (f *Frame) others(visit func(d tensor.Datum)) {
	for i, v := range f.Binding.Program.Values {
		if f.fixed[i] {
			visit(f.data[i])
			if t := f.places[i]; t != nil {
				visit(t)
			}
		} else if f.under == nil && f.Binding.Given(v) {
			visit(f.data[i])
		}
	}
	for i, d := range f.out {
		if !f.made[i] {
			visit(d)
		}
	}
}

// mine visits the data of the run. The inputs belong to the caller, or to the frame around.
func (f *Frame) mine(visit func(d tensor.Datum)) {
	for i, v := range f.Binding.Program.Values {
		if !f.fixed[i] && !f.Binding.Given(v) {
			visit(f.data[i])
		}
	}
	for _, d := range f.out {
		visit(d)
	}
	if f.control != nil {
		f.control.alive(visit)
	}
}
