package ptx

import (
	"fmt"
	"strconv"
	"strings"
)

// Module is a file of PTX.
type Module struct {
	kernels []*Kernel
	names   map[string]bool
}

// NewModule returns an empty module.
func NewModule() *Module { return &Module{names: map[string]bool{}} }

// Kernel adds a kernel. Its name must be an identifier that is new in the module.
func (m *Module) Kernel(name string) *Kernel {
	if m.names[name] {
		panic("ptx: two kernels named " + name)
	}
	m.names[name] = true
	k := &Kernel{Name: name}
	m.kernels = append(m.kernels, k)
	return k
}

// Text returns the module as PTX.
func (m *Module) Text() string {
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_80\n.address_size 64\n")
	for _, k := range m.kernels {
		k.print(&b)
	}
	return b.String()
}

// Kernel is a function that the host launches.
type Kernel struct {
	Name string
	// Threads is the number of threads of a block, if it is the same for all launches (.reqntid); 0 if it may vary.
	Threads int
	// MinBlocks requests that this many blocks fit on a multiprocessor at once (.minnctapersm), so the compiler
	// limits the registers per thread. 0 requests nothing.
	MinBlocks int

	params  []Param
	size    int // bytes of the parameters
	shared  []sharedArray
	dynamic int // bytes
	regs    [classes]int32
	code    []instruction
	labels  int
	guard   *Pred // guards each appended instruction; see Guard
	special map[string]U32
	depth   int
}

// Param is a parameter of a kernel. Launches store the values of all parameters, one after the other, at these
// offsets.
type Param struct {
	Name   string
	Type   string // in PTX: "u64", "u32", "f32", "f64"
	Offset int    // in bytes
	Size   int
}

// Params returns the parameters in their order.
func (k *Kernel) Params() []Param { return k.params }

// ParamBytes returns the size of all parameters.
func (k *Kernel) ParamBytes() int { return k.size }

type sharedArray struct {
	name         string
	bytes, align int
}

// SharedBytes returns the size of the shared memory that the kernel declares.
func (k *Kernel) SharedBytes() int {
	n := 0
	for _, s := range k.shared {
		n = (n+s.align-1)/s.align*s.align + s.bytes
	}
	return n
}

// class is a class of registers.
type class uint8

const (
	predClass class = iota
	b16Class
	b32Class
	f32Class
	b64Class
	f64Class
	classes
)

var classNames = [classes]struct{ prefix, typ string }{
	{"%p", ".pred"}, {"%h", ".b16"}, {"%r", ".b32"}, {"%f", ".f32"}, {"%rd", ".b64"}, {"%fd", ".f64"}}

// value is a register, or a constant.
type value struct {
	k     *Kernel // nil for a constant
	reg   int32
	class class
	text  string // of a constant
}

func (v value) String() string {
	if v.k == nil {
		if v.text == "" {
			panic("ptx: a value that was never computed")
		}
		return v.text
	}
	return classNames[v.class].prefix + strconv.Itoa(int(v.reg))
}

// instruction is a line: an instruction, a label or a comment.
type instruction struct {
	text  string
	depth int
}

func (k *Kernel) register(c class) value {
	k.regs[c]++
	return value{k: k, reg: k.regs[c] - 1, class: c}
}

// emit appends an instruction with its name and operands.
func (k *Kernel) emit(op string, operands ...any) {
	var b strings.Builder
	if k.guard != nil {
		b.WriteString("@" + k.guard.v.String() + " ")
	}
	b.WriteString(op)
	for i, o := range operands {
		if v, ok := o.(value); ok && v.k != nil && v.k != k {
			panic("ptx: " + op + " in kernel " + k.Name + " reads a value of kernel " + v.k.Name)
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte(' ')
		switch o := o.(type) { // fmt is slow, and kernels are long
		case value:
			b.WriteString(o.String())
		case string:
			b.WriteString(o)
		case int:
			b.WriteString(strconv.Itoa(o))
		default:
			fmt.Fprint(&b, o)
		}
	}
	b.WriteByte(';')
	k.code = append(k.code, instruction{b.String(), k.depth})
}

// compute appends an instruction with one result.
func (k *Kernel) compute(c class, op string, operands ...any) value {
	r := k.register(c)
	k.emit(op, append([]any{r}, operands...)...)
	return r
}

// Comment adds a comment to the text.
func (k *Kernel) Comment(format string, args ...any) {
	for line := range strings.Lines(fmt.Sprintf(format, args...)) {
		k.code = append(k.code, instruction{"// " + strings.TrimRight(line, "\n"), k.depth})
	}
}

func (k *Kernel) print(b *strings.Builder) {
	if k.dynamic > 0 {
		fmt.Fprintf(b, "\n.extern .shared .align 16 .b8 dynamic_%s[];\n", k.Name)
	}
	fmt.Fprintf(b, "\n.visible .entry %s(", k.Name)
	for i, p := range k.params {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, "\n\t.param .%s %s", p.Type, p.Name)
	}
	b.WriteString("\n)\n")
	if k.Threads > 0 {
		fmt.Fprintf(b, ".reqntid %d, 1, 1\n", k.Threads)
	}
	if k.MinBlocks > 0 {
		fmt.Fprintf(b, ".minnctapersm %d\n", k.MinBlocks)
	}
	b.WriteString("{\n")
	for c, n := range k.regs {
		if n > 0 {
			fmt.Fprintf(b, "\t.reg %s %s<%d>;\n", classNames[c].typ, classNames[c].prefix, n)
		}
	}
	for _, s := range k.shared {
		fmt.Fprintf(b, "\t.shared .align %d .b8 %s[%d];\n", s.align, s.name, s.bytes)
	}
	for _, in := range k.code {
		for range in.depth + 1 {
			b.WriteByte('\t')
		}
		b.WriteString(in.text)
		b.WriteByte('\n')
	}
	b.WriteString("\tret;\n}\n")
}
