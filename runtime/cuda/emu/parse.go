package emu

import (
	"fmt"
	"strconv"
	"strings"
)

// The parser turns text into modules of statements. It handles the syntax of PTX; instructions are decoded later.

// Budgets of the parser, since the text may be anything.
const (
	maxText       = 64 << 20 // bytes
	maxStatements = 4 << 20  // of a module
	maxRegisters  = 1 << 20  // of a kernel
	maxShared     = 1 << 20  // bytes that a kernel declares
)

// module is a parsed file.
type module struct {
	version string // "7.0"
	target  string // "sm_80"
	entries []*entry
	shared  map[string]*variable // of the module: dynamic shared memory, and static
}

// entry is a kernel.
type entry struct {
	name    string
	line    int
	params  []variable
	bytes   int // of all parameters
	reqntid [3]int
	maxntid [3]int
	minCTA  int
	regs    map[string]string // type by name: ".b32"
	vars    map[string]*variable
	code    []statement
	labels  map[string]int // index into code
}

// variable is memory that has a name.
type variable struct {
	name   string
	space  space
	typ    string // ".b8"
	align  int
	bytes  int
	extern bool
	offset int
}

// statement is an instruction with its operands.
type statement struct {
	line     int
	text     string
	guard    string // name of the predicate, or ""
	negated  bool   // the guard
	op       []string
	operands []operand
}

// Name returns the instruction's name with its qualifiers.
func (s *statement) name() string { return strings.Join(s.op, ".") }

// has reports whether the instruction has a qualifier.
func (s *statement) has(q string) bool {
	for _, o := range s.op[1:] {
		if o == q {
			return true
		}
	}
	return false
}

func (s *statement) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s: in %q", s.line, fmt.Sprintf(format, args...), s.text)
}

type parser struct {
	text  string
	pos   int
	line  int
	mod   *module
	count int
}

// parse reads a module.
func parse(text string) (*module, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("PTX text of %d bytes: expected at most %d", len(text), maxText)
	}
	p := &parser{text: text, line: 1, mod: &module{shared: map[string]*variable{}}}
	for {
		p.skip()
		if p.pos >= len(p.text) {
			break
		}
		if err := p.top(); err != nil {
			return nil, err
		}
	}
	if p.mod.version == "" {
		return nil, fmt.Errorf("line 1: expected .version")
	}
	if p.mod.target == "" {
		return nil, fmt.Errorf("line %d: the module has no .target", p.line)
	}
	return p.mod, nil
}

func (p *parser) errorf(format string, args ...any) error {
	start := strings.LastIndexByte(p.text[:p.pos], '\n') + 1
	end := len(p.text)
	if i := strings.IndexByte(p.text[p.pos:], '\n'); i >= 0 {
		end = p.pos + i
	}
	text := strings.TrimSpace(p.text[start:end])
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	return fmt.Errorf("line %d: %s: in %q", p.line, fmt.Sprintf(format, args...), text)
}

// skip passes white space and comments.
func (p *parser) skip() {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == '\n':
			p.line++
			p.pos++
		case c == ' ' || c == '\t' || c == '\r' || c == '\f':
			p.pos++
		case strings.HasPrefix(p.text[p.pos:], "//"):
			if i := strings.IndexByte(p.text[p.pos:], '\n'); i >= 0 {
				p.pos += i
			} else {
				p.pos = len(p.text)
			}
		case strings.HasPrefix(p.text[p.pos:], "/*"):
			i := strings.Index(p.text[p.pos+2:], "*/")
			if i < 0 {
				i = len(p.text) - p.pos - 4
			}
			p.line += strings.Count(p.text[p.pos:p.pos+i+4], "\n")
			p.pos += i + 4
		default:
			return
		}
	}
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c == '%' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// word reads letters, digits, _, $, % and dots, or returns "".
func (p *parser) word() string {
	p.skip()
	start := p.pos
	for p.pos < len(p.text) && (isWord(p.text[p.pos]) || p.text[p.pos] == '.' ||
		p.text[p.pos] == ':' && strings.HasPrefix(p.text[p.pos:], "::")) {
		if p.text[p.pos] == ':' {
			p.pos++
		}
		p.pos++
	}
	return p.text[start:p.pos]
}

func (p *parser) peek() byte {
	p.skip()
	if p.pos < len(p.text) {
		return p.text[p.pos]
	}
	return 0
}

func (p *parser) accept(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.pos++
	return true
}

func (p *parser) expect(c byte) error {
	if !p.accept(c) {
		return p.errorf("expected %q", c)
	}
	return nil
}

func (p *parser) integer() (int, error) {
	w := p.word()
	n, err := strconv.ParseInt(strings.TrimSuffix(w, "U"), 0, 32)
	if err != nil || n < 0 {
		return 0, p.errorf("expected a number, found %q", w)
	}
	return int(n), nil
}

func (p *parser) top() error {
	switch w := p.word(); w {
	case ".version":
		if p.mod.version != "" {
			return p.errorf("a second .version")
		}
		p.mod.version = p.word()
		if _, err := strconv.ParseFloat(p.mod.version, 64); err != nil {
			return p.errorf("expected a version, found %q", p.mod.version)
		}
		return nil
	case ".target":
		p.mod.target = p.word()
		if !strings.HasPrefix(p.mod.target, "sm_") {
			return p.errorf("expected a target such as sm_80, found %q", p.mod.target)
		}
		return nil
	case ".address_size":
		n, err := p.integer()
		if err == nil && n != 64 {
			return p.errorf("expected .address_size 64, found %d", n)
		}
		return err
	case ".extern", ".shared":
		v, err := p.variable(w)
		if err != nil {
			return err
		}
		if p.mod.shared[v.name] != nil {
			return p.errorf("a second variable %s", v.name)
		}
		p.mod.shared[v.name] = v
		return nil
	case ".visible", ".weak":
		if w := p.word(); w != ".entry" {
			return p.errorf("expected .entry, found %q", w)
		}
		return p.entry()
	case ".entry":
		return p.entry()
	case "":
		return p.errorf("expected a directive")
	default:
		return p.errorf("unknown directive %s", w)
	}
}

// typeBytes returns the size of a type, or 0 if it is unknown.
func typeBytes(t string) int {
	switch t {
	case ".b8", ".u8", ".s8":
		return 1
	case ".b16", ".u16", ".s16", ".f16", ".bf16":
		return 2
	case ".b32", ".u32", ".s32", ".f32":
		return 4
	case ".b64", ".u64", ".s64", ".f64":
		return 8
	}
	return 0
}

// variable reads a declaration of shared or local memory after its first word.
func (p *parser) variable(first string) (*variable, error) {
	v := &variable{space: shared}
	w := first
	if w == ".extern" {
		v.extern = true
		w = p.word()
	}
	switch w {
	case ".shared":
	case ".local":
		v.space = local
	default:
		return nil, p.errorf("expected .shared, found %q", w)
	}
	w = p.word()
	if w == ".align" {
		n, err := p.integer()
		if err != nil {
			return nil, err
		}
		if n == 0 || n&(n-1) != 0 || n > 128 {
			return nil, p.errorf("an alignment of %d", n)
		}
		v.align, w = n, p.word()
	}
	size := typeBytes(w)
	if size == 0 {
		return nil, p.errorf("unknown type %q", w)
	}
	v.typ, v.align = w, max(v.align, size)
	if v.name = p.word(); v.name == "" || strings.Contains(v.name, ".") {
		return nil, p.errorf("expected a name")
	}
	v.bytes = size
	if p.accept('[') {
		if p.accept(']') {
			if !v.extern {
				return nil, p.errorf("array %s has no size", v.name)
			}
			v.bytes = 0
			return v, p.expect(';')
		}
		n, err := p.integer()
		if err != nil {
			return nil, err
		}
		if n > maxShared/size {
			return nil, p.errorf("array %s of %d elements: expected at most %d bytes", v.name, n, maxShared)
		}
		v.bytes = n * size
		if err := p.expect(']'); err != nil {
			return nil, err
		}
	}
	return v, p.expect(';')
}

func (p *parser) entry() error {
	e := &entry{name: p.word(), line: p.line, regs: map[string]string{}, vars: map[string]*variable{}, labels: map[string]int{}}
	if e.name == "" || strings.ContainsAny(e.name, ".%") {
		return p.errorf("expected the name of a kernel, found %q", e.name)
	}
	for _, o := range p.mod.entries {
		if o.name == e.name {
			return p.errorf("a second kernel %s", e.name)
		}
	}
	if p.accept('(') {
		for !p.accept(')') {
			if len(e.params) > 0 {
				if err := p.expect(','); err != nil {
					return err
				}
			}
			if err := p.param(e); err != nil {
				return err
			}
		}
	}
	for p.peek() != '{' {
		w := p.word()
		var err error
		switch w {
		case ".reqntid":
			err = p.three(&e.reqntid)
		case ".maxntid":
			err = p.three(&e.maxntid)
		case ".minnctapersm":
			e.minCTA, err = p.integer()
		case ".maxnreg":
			_, err = p.integer()
		default:
			err = p.errorf("unknown directive %q of kernel %s", w, e.name)
		}
		if err != nil {
			return err
		}
	}
	p.pos++
	for !p.accept('}') {
		if p.pos >= len(p.text) {
			return p.errorf("kernel %s does not end", e.name)
		}
		if err := p.statement(e); err != nil {
			return err
		}
	}
	p.mod.entries = append(p.mod.entries, e)
	return nil
}

func (p *parser) three(to *[3]int) error {
	*to = [3]int{1, 1, 1}
	for i := range to {
		n, err := p.integer()
		if err != nil {
			return err
		}
		if n < 1 || n > 65535 {
			return p.errorf("a block of %d threads", n)
		}
		to[i] = n
		if i == 2 || !p.accept(',') {
			break
		}
	}
	return nil
}

func (p *parser) param(e *entry) error {
	if w := p.word(); w != ".param" {
		return p.errorf("expected .param, found %q", w)
	}
	v := variable{space: param}
	w := p.word()
	if w == ".align" {
		n, err := p.integer()
		if err != nil {
			return err
		}
		if n == 0 || n&(n-1) != 0 || n > 128 {
			return p.errorf("an alignment of %d", n)
		}
		v.align, w = n, p.word()
	}
	size := typeBytes(w)
	if size == 0 {
		return p.errorf("unknown type %q of a parameter", w)
	}
	v.typ, v.align, v.bytes = w, max(v.align, size), size
	w = p.word()
	if w == ".ptr" {
		for w = p.word(); strings.HasPrefix(w, "."); w = p.word() {
			if w == ".align" {
				if _, err := p.integer(); err != nil {
					return err
				}
			}
		}
	}
	v.name = w
	if p.accept('[') {
		n, err := p.integer()
		if err != nil {
			return err
		}
		if n > 4096/size {
			return p.errorf("parameter %s of %d elements", v.name, n)
		}
		v.bytes = n * size
		if err := p.expect(']'); err != nil {
			return err
		}
	}
	if v.name == "" || e.vars[v.name] != nil {
		return p.errorf("expected a new name of a parameter, found %q", v.name)
	}
	v.offset = (e.bytes + v.align - 1) &^ (v.align - 1)
	if e.bytes = v.offset + v.bytes; e.bytes > 4096 {
		return p.errorf("parameters of %d bytes: expected at most 4096", e.bytes)
	}
	e.params = append(e.params, v)
	e.vars[v.name] = &v
	return nil
}

// statement reads a declaration, a label or an instruction.
func (p *parser) statement(e *entry) error {
	if p.accept(';') {
		return nil
	}
	if p.count++; p.count > maxStatements {
		return p.errorf("the module has more than %d statements", maxStatements)
	}
	p.skip()
	start, line := p.pos, p.line
	s := statement{line: line}
	if p.accept('@') {
		s.negated = p.accept('!')
		if s.guard = p.word(); s.guard == "" {
			return p.errorf("expected a predicate")
		}
	}
	w := p.word()
	switch {
	case w == "":
		return p.errorf("expected an instruction")
	case s.guard == "" && w == ".reg":
		return p.registers(e)
	case s.guard == "" && (w == ".shared" || w == ".local"):
		v, err := p.variable(w)
		if err != nil {
			return err
		}
		if e.vars[v.name] != nil {
			return p.errorf("a second variable %s", v.name)
		}
		e.vars[v.name] = v
		return nil
	case s.guard == "" && w == ".pragma":
		for p.pos < len(p.text) && p.text[p.pos] != ';' && p.text[p.pos] != '\n' {
			p.pos++
		}
		return p.expect(';')
	case strings.HasPrefix(w, "."):
		return p.errorf("unknown directive %s", w)
	case s.guard == "" && !strings.Contains(w, ".") && p.peek() == ':':
		p.pos++
		if _, ok := e.labels[w]; ok {
			return p.errorf("a second label %s", w)
		}
		e.labels[w] = len(e.code)
		return nil
	}
	s.op = strings.Split(w, ".")
	for !p.accept(';') {
		if len(s.operands) > 0 {
			if err := p.expect(','); err != nil {
				return err
			}
		}
		o, err := p.operand(0)
		if err != nil {
			return err
		}
		if len(s.operands) == 16 {
			return p.errorf("an instruction of more than 16 operands")
		}
		s.operands = append(s.operands, o)
	}
	s.text = strings.TrimSuffix(p.text[start:p.pos], ";")
	if len(s.text) > 160 {
		s.text = s.text[:160] + "…"
	}
	e.code = append(e.code, s)
	return nil
}

func (p *parser) registers(e *entry) error {
	typ := p.word()
	if typ != ".pred" && typeBytes(typ) == 0 {
		return p.errorf("unknown type %q of registers", typ)
	}
	for {
		name := p.word()
		if name == "" {
			return p.errorf("expected the name of a register")
		}
		names := []string{name}
		if p.accept('<') {
			n, err := p.integer()
			if err != nil {
				return err
			}
			if err := p.expect('>'); err != nil {
				return err
			}
			if n > maxRegisters-len(e.regs) {
				return p.errorf("kernel %s has more than %d registers", e.name, maxRegisters)
			}
			names = make([]string, n)
			for i := range names {
				names[i] = name + strconv.Itoa(i)
			}
		}
		for _, n := range names {
			if _, ok := e.regs[n]; ok {
				return p.errorf("a second register %s", n)
			}
			e.regs[n] = typ
		}
		if p.accept(';') {
			return nil
		}
		if err := p.expect(','); err != nil {
			return err
		}
	}
}
