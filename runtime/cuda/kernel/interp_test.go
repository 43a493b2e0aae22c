package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cuda/driver"
)

// mini runs one thread of a kernel that reads parameters x0, x1, … and stores one float32: enough for expressions.
type mini struct {
	regs   []uint64
	code   []func(m *mini) int // next pc, or -1
	params map[string]uint64
	shared []byte
	mem    []byte // global memory: addresses are places in it
	tid    uint64
	block  uint64
}

func f32(x uint64) float32 { return math.Float32frombits(uint32(x)) }
func b32(x float32) uint64 { return uint64(math.Float32bits(x)) }
func f64(x uint64) float64 { return math.Float64frombits(x) }
func b64(x float64) uint64 { return math.Float64bits(x) }

func fma32(a, b, c float32) float32 {
	// exact via big-ish: product exact in float64; add with round to odd
	p := float64(a) * float64(b)
	s := p + float64(c)
	if math.IsInf(s, 0) || math.IsNaN(s) || s == 0 {
		return float32(s)
	}
	t := s - p
	e := (p - (s - t)) + (float64(c) - t)
	if e != 0 {
		u := math.Float64bits(s)
		if u&1 == 0 {
			if (e > 0) == (s > 0) {
				u++
			} else {
				u--
			}
		}
		// if odd already keep
		s = math.Float64frombits(u)
	}
	return float32(s)
}

func compileMini(text string) *mini {
	m := &mini{params: map[string]uint64{}}
	at := map[string]int{}
	reg := func(s string) int {
		if i, ok := at[s]; ok {
			return i
		}
		at[s] = len(at)
		return at[s]
	}
	lines := strings.Split(text[strings.Index(text, "{\n")+2:], "\n")
	labels := map[string]int{}
	var ins []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l == "" || l[0] == '.' || l[0] == '}' || strings.HasPrefix(l, "//") {
			continue
		}
		if strings.HasSuffix(l, ":") {
			labels[l[:len(l)-1]] = len(ins)
			continue
		}
		ins = append(ins, strings.TrimSuffix(l, ";"))
	}
	for pc, l := range ins {
		guard, neg := -1, false
		if l[0] == '@' {
			f := strings.SplitN(l, " ", 2)
			g := f[0][1:]
			if g[0] == '!' {
				neg = true
				g = g[1:]
			}
			guard = reg(g)
			l = f[1]
		}
		f := strings.SplitN(l, " ", 2)
		op := f[0]
		var args []string
		if len(f) > 1 {
			rest := f[1]
			rest = strings.ReplaceAll(rest, "{", "")
			rest = strings.ReplaceAll(rest, "}", "")
			for _, a := range strings.Split(rest, ",") {
				args = append(args, strings.TrimSpace(a))
			}
		}
		get := func(i int) func(m *mini) uint64 {
			if i >= len(args) {
				return nil
			}
			a := args[i]
			if a[0] == '%' {
				r := reg(a)
				return func(m *mini) uint64 { return m.regs[r] }
			}
			var v uint64
			switch {
			case strings.HasPrefix(a, "0f"), strings.HasPrefix(a, "0d"):
				v, _ = strconv.ParseUint(a[2:], 16, 64)
			default:
				n, err := strconv.ParseInt(a, 10, 64)
				if err != nil {
					u, _ := strconv.ParseUint(a, 10, 64)
					n = int64(u)
				}
				v = uint64(n)
			}
			return func(*mini) uint64 { return v }
		}
		var a, b, c func(m *mini) uint64
		var d int
		if len(args) > 0 && args[0][0] == '%' {
			d = reg(args[0])
			a, b, c = get(1), get(2), get(3)
		}
		do := func(g func(m *mini) uint64) func(m *mini) int {
			return func(m *mini) int {
				if guard >= 0 && (m.regs[guard] == 1) == neg {
					return pc + 1
				}
				m.regs[d] = g(m)
				return pc + 1
			}
		}
		bit := func(p bool) uint64 {
			if p {
				return 1
			}
			return 0
		}
		u32 := func(x uint64) uint64 { return uint64(uint32(x)) }
		ff := func(g func(x, y float32) float32) func(m *mini) uint64 {
			return func(m *mini) uint64 { return b32(g(f32(a(m)), f32(b(m)))) }
		}
		f1 := func(g func(x float64) float64) func(m *mini) uint64 {
			return func(m *mini) uint64 { return b32(float32(g(float64(f32(a(m)))))) }
		}
		dd := func(g func(x, y float64) float64) func(m *mini) uint64 {
			return func(m *mini) uint64 { return b64(g(f64(a(m)), f64(b(m)))) }
		}
		d1 := func(g func(x float64) float64) func(m *mini) uint64 {
			return func(m *mini) uint64 { return b64(g(f64(a(m)))) }
		}
		ii := func(g func(x, y uint32) uint32) func(m *mini) uint64 {
			return func(m *mini) uint64 { return uint64(g(uint32(a(m)), uint32(b(m)))) }
		}
		ll := func(g func(x, y uint64) uint64) func(m *mini) uint64 {
			return func(m *mini) uint64 { return g(a(m), b(m)) }
		}
		rni := func(x float64) uint64 {
			if x != x {
				return 0
			}
			return uint64(uint32(int32(math.RoundToEven(max(math.MinInt32, min(math.MaxInt32, x))))))
		}
		table := map[string]func(m *mini) uint64{
			"add.rn.f32": ff(func(x, y float32) float32 { return x + y }), "sub.rn.f32": ff(func(x, y float32) float32 { return x - y }),
			"mul.rn.f32": ff(func(x, y float32) float32 { return x * y }), "div.rn.f32": ff(func(x, y float32) float32 { return x / y }),
			"fma.rn.f32":  func(m *mini) uint64 { return b32(fma32(f32(a(m)), f32(b(m)), f32(c(m)))) },
			"min.NaN.f32": ff(func(x, y float32) float32 { return min(x, y) }), "max.NaN.f32": ff(func(x, y float32) float32 { return max(x, y) }),
			"neg.f32": ff1(func(x float32) float32 { return -x }, &a), "abs.f32": f1(math.Abs), "sqrt.rn.f32": f1(math.Sqrt), "rcp.rn.f32": ff1(func(x float32) float32 { return 1 / x }, &a),
			"cvt.rmi.f32.f32": f1(math.Floor), "cvt.rpi.f32.f32": f1(math.Ceil), "cvt.rzi.f32.f32": f1(math.Trunc), "cvt.rni.f32.f32": f1(math.RoundToEven),
			"add.rn.f64": dd(func(x, y float64) float64 { return x + y }), "sub.rn.f64": dd(func(x, y float64) float64 { return x - y }),
			"mul.rn.f64": dd(func(x, y float64) float64 { return x * y }), "div.rn.f64": dd(func(x, y float64) float64 { return x / y }),
			"fma.rn.f64": func(m *mini) uint64 { return b64(math.FMA(f64(a(m)), f64(b(m)), f64(c(m)))) },
			"neg.f64":    d1(func(x float64) float64 { return -x }), "abs.f64": d1(math.Abs), "sqrt.rn.f64": d1(math.Sqrt), "rcp.rn.f64": d1(func(x float64) float64 { return 1 / x }),
			"cvt.rni.f64.f64": d1(math.RoundToEven), "cvt.rni.s32.f64": func(m *mini) uint64 { return rni(f64(a(m))) },
			"cvt.f64.f32": func(m *mini) uint64 { return b64(float64(f32(a(m)))) }, "cvt.rn.f32.f64": func(m *mini) uint64 { return b32(float32(f64(a(m)))) },
			"cvt.rn.f32.s32": func(m *mini) uint64 { return b32(float32(int32(a(m)))) }, "cvt.rn.f32.u32": func(m *mini) uint64 { return b32(float32(uint32(a(m)))) },
			"cvt.rn.f64.s32": func(m *mini) uint64 { return b64(float64(int32(a(m)))) }, "cvt.rn.f64.s64": func(m *mini) uint64 { return b64(float64(int64(a(m)))) },
			"cvt.u64.u32": func(m *mini) uint64 { return a(m) }, "cvt.u32.u64": func(m *mini) uint64 { return u32(a(m)) },
			"add.u32": ii(func(x, y uint32) uint32 { return x + y }), "sub.u32": ii(func(x, y uint32) uint32 { return x - y }),
			"add.s32": ii(func(x, y uint32) uint32 { return x + y }), "sub.s32": ii(func(x, y uint32) uint32 { return x - y }),
			"and.b32": ii(func(x, y uint32) uint32 { return x & y }), "or.b32": ii(func(x, y uint32) uint32 { return x | y }), "xor.b32": ii(func(x, y uint32) uint32 { return x ^ y }),
			"shl.b32": ii(func(x, y uint32) uint32 { return x << y }), "shr.u32": ii(func(x, y uint32) uint32 { return x >> y }),
			"shr.s32": ii(func(x, y uint32) uint32 { return uint32(int32(x) >> y) }),
			"min.u32": ii(func(x, y uint32) uint32 { return min(x, y) }), "max.u32": ii(func(x, y uint32) uint32 { return max(x, y) }),
			"mul.wide.u32": func(m *mini) uint64 { return u32(a(m)) * u32(b(m)) },
			"add.u64":      ll(func(x, y uint64) uint64 { return x + y }), "sub.u64": ll(func(x, y uint64) uint64 { return x - y }),
			"shl.b64": ll(func(x, y uint64) uint64 { return x << y }), "shr.u64": ll(func(x, y uint64) uint64 { return x >> y }), "or.b64": ll(func(x, y uint64) uint64 { return x | y }),
			"rem.u64":  ll(func(x, y uint64) uint64 { _, r := bits.Div64(0, x, y); return r }),
			"and.pred": ll(func(x, y uint64) uint64 { return x & y }), "or.pred": ll(func(x, y uint64) uint64 { return x | y }), "xor.pred": ll(func(x, y uint64) uint64 { return x ^ y }),
			"not.pred": func(m *mini) uint64 { return a(m) ^ 1 },
			"mov.f32":  func(m *mini) uint64 { return a(m) }, "mov.f64": func(m *mini) uint64 { return a(m) }, "mov.b32": func(m *mini) uint64 { return u32(a(m)) },
			"cvta.to.global.u64": func(m *mini) uint64 { return a(m) },
			"mov.u32": func(m *mini) uint64 {
				switch args[1] {
				case "%tid.x":
					return m.tid
				case "%ctaid.x":
					return m.block
				case "shared0":
					return 0
				}
				return u32(a(m))
			},
			"mul.lo.u32":   ii(func(x, y uint32) uint32 { return x * y }),
			"mad.lo.u32":   func(m *mini) uint64 { return u32(a(m)*b(m) + c(m)) },
			"mul.hi.u32":   func(m *mini) uint64 { return u32(a(m)) * u32(b(m)) >> 32 },
			"mad.wide.u32": func(m *mini) uint64 { return u32(a(m))*u32(b(m)) + c(m) },
			"mad.wide.s32": func(m *mini) uint64 { return uint64(int64(int32(a(m)))*int64(int32(b(m)))) + c(m) },
			"mad.lo.u64":   func(m *mini) uint64 { return a(m)*b(m) + c(m) },
			"mul.lo.u64":   ll(func(x, y uint64) uint64 { return x * y }),
			"cvt.s64.s32":  func(m *mini) uint64 { return uint64(int64(int32(a(m)))) }, "cvt.u16.u32": func(m *mini) uint64 { return a(m) & 0xffff },
			"cvt.rn.f32.s64": func(m *mini) uint64 { return b32(float32(int64(a(m)))) }, "cvt.rn.f32.u64": func(m *mini) uint64 { return b32(float32(a(m))) },
			"cvt.rn.f64.u64":  func(m *mini) uint64 { return b64(float64(a(m))) },
			"cvt.rzi.s64.f64": func(m *mini) uint64 { return uint64(int64(f64(a(m)))) }, "cvt.rzi.u64.f64": func(m *mini) uint64 { return uint64(f64(a(m))) },
			"cvt.rz.f32.f64": func(m *mini) uint64 {
				x := f64(a(m))
				y := float32(x)
				if math.Abs(float64(y)) > math.Abs(x) {
					y = math.Nextafter32(y, 0)
				}
				return b32(y)
			},
			"min.s64": ll(func(x, y uint64) uint64 { return uint64(min(int64(x), int64(y))) }), "max.s64": ll(func(x, y uint64) uint64 { return uint64(max(int64(x), int64(y))) }),
			"div.s64": ll(func(x, y uint64) uint64 { return uint64(int64(x) / int64(y)) }), "rem.s64": ll(func(x, y uint64) uint64 { return uint64(int64(x) % int64(y)) }),
			"div.u64": ll(func(x, y uint64) uint64 { return x / y }), "shr.s64": ll(func(x, y uint64) uint64 { return uint64(int64(x) >> y) }),
			"min.u64": ll(func(x, y uint64) uint64 { return min(x, y) }), "max.u64": ll(func(x, y uint64) uint64 { return max(x, y) }),
			"min.f64": dd(math.Min), "max.f64": dd(math.Max), "cvt.rmi.f64.f64": d1(math.Floor), "cvt.rpi.f64.f64": d1(math.Ceil),
			"cvt.rn.f16.f32": func(m *mini) uint64 { return uint64(tensor.ToF16(float64(f32(a(m))))) }, "cvt.f32.f16": func(m *mini) uint64 { return b32(tensor.F16(a(m)).Float32()) },
			"cvt.rn.bf16.f32": func(m *mini) uint64 { return uint64(tensor.ToBF16(float64(f32(a(m))))) }, "cvt.u32.u16": func(m *mini) uint64 { return a(m) },
		}
		for i, cmp := range []string{"lt", "le", "gt", "ge", "eq", "neu", "ne", "nan"} {
			t := func(l, e, g, n bool) bool { return []bool{l, l || e, g, g || e, e, !e || n, !e && !n, n}[i] }
			table["setp."+cmp+".f32"] = func(m *mini) uint64 {
				x, y := f32(a(m)), f32(b(m))
				return bit(t(x < y, x == y, x > y, x != x || y != y))
			}
			table["setp."+cmp+".f64"] = func(m *mini) uint64 {
				x, y := f64(a(m)), f64(b(m))
				return bit(t(x < y, x == y, x > y, x != x || y != y))
			}
			table["setp."+cmp+".u32"] = func(m *mini) uint64 { x, y := uint32(a(m)), uint32(b(m)); return bit(t(x < y, x == y, x > y, false)) }
			table["setp."+cmp+".u64"] = func(m *mini) uint64 { x, y := a(m), b(m); return bit(t(x < y, x == y, x > y, false)) }
			table["setp."+cmp+".s64"] = func(m *mini) uint64 { x, y := int64(a(m)), int64(b(m)); return bit(t(x < y, x == y, x > y, false)) }
			table["setp."+cmp+".s32"] = func(m *mini) uint64 { x, y := int32(a(m)), int32(b(m)); return bit(t(x < y, x == y, x > y, false)) }
		}
		for _, ty := range []string{"f32", "f64", "b32", "b64"} {
			table["selp."+ty] = func(m *mini) uint64 {
				if c(m) == 1 {
					return a(m)
				}
				return b(m)
			}
		}
		switch {
		case op == "ret":
			m.code = append(m.code, func(m *mini) int { return -1 })
		case op == "bra":
			to := args[0]
			m.code = append(m.code, func(m *mini) int {
				if guard >= 0 && (m.regs[guard] == 1) == neg {
					return pc + 1
				}
				return labels[to]
			})
		case strings.HasPrefix(op, "ld.param."):
			name := args[1]
			m.code = append(m.code, do(func(m *mini) uint64 { return m.params[name] }))
		case op == "bar.sync":
			m.code = append(m.code, func(m *mini) int { return -pc - 2 })
		case strings.HasPrefix(op, "ld.global."), strings.HasPrefix(op, "st.global."), strings.HasPrefix(op, "ld.shared."),
			strings.HasPrefix(op, "st.shared."):
			local := op[3] == 's'
			parts := strings.Split(op, ".")
			size := map[string]int{"u8": 1, "u16": 2, "u32": 4, "f32": 4, "u64": 8, "f64": 8}[parts[len(parts)-1]]
			read := op[0] == 'l'
			n := len(args) - 1
			address, from := args[n], 0
			if !read {
				address, from = args[0], 1
			}
			address = strings.Trim(address, "[]")
			offset := 0
			if i := strings.IndexAny(address[1:], "+-"); i > 0 {
				offset, _ = strconv.Atoi(address[i+1:])
				address = address[:i+1]
			}
			base := reg(address)
			var values []func(m *mini) uint64
			var to []int
			for i := range n {
				values = append(values, get(i+from))
				if read {
					to = append(to, reg(args[i]))
				}
			}
			m.code = append(m.code, func(m *mini) int {
				if guard >= 0 && (m.regs[guard] == 1) == neg {
					return pc + 1
				}
				at := int(m.regs[base]) + offset
				if at%(size*n) != 0 {
					panic(fmt.Sprint("misaligned ", l, at))
				}
				for i := range n {
					cell := m.mem
					if local {
						cell = m.shared
					}
					cell = cell[at+size*i : at+size*(i+1)]
					if read {
						x := uint64(0)
						for j := range cell {
							x |= uint64(cell[j]) << (8 * j)
						}
						m.regs[to[i]] = x
						continue
					}
					x := values[i](m)
					for j := range cell {
						cell[j] = byte(x >> (8 * j))
					}
				}
				return pc + 1
			})
		case op == "mov.b64" && len(args) == 3 && strings.HasPrefix(args[0], "%r") && !strings.HasPrefix(args[0], "%rd"):
			lo, hi, v := reg(args[0]), reg(args[1]), get(2)
			m.code = append(m.code, func(m *mini) int { x := v(m); m.regs[lo], m.regs[hi] = x&0xffffffff, x>>32; return pc + 1 })
		case op == "mov.b64" && len(args) == 3:
			lo, hi := get(1), get(2)
			m.code = append(m.code, do(func(m *mini) uint64 { return u32(lo(m)) | u32(hi(m))<<32 }))
		case op == "mov.b64":
			m.code = append(m.code, do(func(m *mini) uint64 { return a(m) }))
		case table[op] != nil:
			m.code = append(m.code, do(table[op]))
		default:
			panic(fmt.Sprint("mini: ", op, " in ", l))
		}
	}
	m.regs = make([]uint64, len(at)+1)
	return m
}

func ff1(g func(x float32) float32, a *func(m *mini) uint64) func(m *mini) uint64 {
	return func(m *mini) uint64 { return b32(g(f32((*a)(m)))) }
}

func (m *mini) run(x ...float32) float32 {
	for i, v := range x {
		m.params[fmt.Sprintf("[x%d]", i)] = b32(v)
	}
	m.mem = make([]byte, 4)
	m.thread()
	return f32(uint64(binary.LittleEndian.Uint32(m.mem)))
}

func (m *mini) thread() {
	for pc := 0; pc >= 0; {
		pc = m.code[pc](m)
	}
}

// launch runs calls of kernels thread by thread, from barrier to barrier; addresses of buffers are places in mem.
func launch(mem []byte, address func(Buffer) int, calls ...Call) {
	for _, c := range calls {
		m := compileMini(c.Code.Text)
		m.mem = mem
		packed := c.Pack(func(b Buffer) driver.Ptr { return driver.Ptr(address(b)) })
		for _, p := range c.Code.Params {
			x := uint64(binary.LittleEndian.Uint32(packed[p.Offset:]))
			if p.Size == 8 {
				x = binary.LittleEndian.Uint64(packed[p.Offset:])
			}
			m.params["["+p.Name+"]"] = x
		}
		for b := range uint64(c.Grid.X) {
			regs, pc := make([][]uint64, c.Code.Threads), make([]int, c.Code.Threads)
			m.shared = make([]byte, 48<<10)
			for turn := 0; turn == 0 || slices.ContainsFunc(pc, func(at int) bool { return at >= 0 }); turn++ {
				for t := range pc {
					if turn == 0 {
						regs[t] = make([]uint64, len(m.regs))
					}
					m.block, m.tid, m.regs = b, uint64(t), regs[t]
					at := pc[t]
					for at >= 0 {
						at = m.code[at](m)
					}
					pc[t] = -at - 1 // behind a barrier; 0 at the end
					if at == -1 {
						pc[t] = -1
					}
				}
			}
		}
	}
}
