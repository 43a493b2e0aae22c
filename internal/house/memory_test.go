package house

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// running are the packages that bind and run programs.
var running = []string{"runtime", "runtime/lowering", "runtime/lowering/internal/toy", "runtime/ref",
	"runtime/cpu/internal/record", "runtime/cpu/internal/elementwise", "runtime/cpu/internal/windowed", "runtime/cpu/internal/recurrence",
	"runtime/cpu/internal/rows", "runtime/cpu/internal/streaming", "runtime/cpu/internal/tensors",
	"runtime/cpu/internal/tensors/convolution", "runtime/cpu/internal/tensors/elements", "runtime/cpu/internal/tensors/integers", "runtime/cpu/internal/tensors/models", "runtime/cpu/internal/tensors/moves",
	"runtime/cpu/internal/tensors/pooling", "runtime/cpu/internal/tensors/products", "runtime/cpu/internal/tensors/reductions", "runtime/cpu/internal/tensors/sequences",
	"runtime/cpu"}

// ofProgram are sizes that follow from the program, and not from shapes or data, although their types do not show it:
// functions, sizes and what bounds them.
var ofProgram = map[string]string{
	"runtime/binding.go bindData: len(in)":                                                  "inputs",
	"runtime/binding.go bindDims: len(sg.inputs)":                                           "inputs",
	"runtime/cpu/columns.go rowJoin: len(in)":                                               "inputs",
	"runtime/cpu/control.go attachControl: len(u.subs)":                                     "subgraphs of the program",
	"runtime/cpu/implement.go subs: len(all)":                                               "subgraphs of the program",
	"runtime/cpu/internal/elementwise/broadcast.go NewBroadcast: len(in)":                   "inputs",
	"runtime/cpu/internal/elementwise/tensor.go tensor: len(p.reads)":                       "operands of an expression",
	"runtime/cpu/internal/tensors/convolution/convnd.go newConvND: len(taps)":               "axes",
	"runtime/cpu/internal/tensors/moves/move.go regular: len(m.dims)":                       "axes",
	"runtime/cpu/internal/tensors/pooling/poolnd.go newPoolND: len(kernelShape)":            "axes",
	"runtime/cpu/internal/tensors/pooling/poolreals.go newRealPool: len(kernelShape)":       "axes",
	"runtime/cpu/internal/tensors/reductions/reducenumbers.go newReduceNumbers: len(shape)": "axes",
	"runtime/cpu/internal/tensors/sliding.go NewSliding: 4*rank":                            "axes",
	"runtime/cpu/internal/tensors/moves/transpose.go transposeKernel: rank":                 "axes",
	"runtime/cpu/memory.go place: len(p.all)":                                               "values, or units, of the program",
	"runtime/cpu/memory.go place: units":                                                    "values, or units, of the program",
	"runtime/cpu/memory.go planMemory: len(units)":                                          "values, or units, of the program",
	"runtime/cpu/memory_join.go join: len(p.all)":                                           "values, or units, of the program",
	"runtime/inputs.go outputShapes: len(sg.outputs)":                                       "outputs",
	"runtime/lowering/arena.go Place: len(all)":                                             "values, or units, of the program",
	"runtime/lowering/arena_many.go placeMany: len(all)":                                    "values, or units, of the program",
	"runtime/lowering/control_late.go runner: len(in)":                                      "inputs",
	"runtime/lowering/frame.go Evaluate: len(s.Args())":                                     "inputs",
	"runtime/lowering/internal/toy/kernels.go transpose: len(in)":                           "inputs",
	"runtime/lowering/loop.go body: outs":                                                   "outputs",
	"runtime/lowering/loop.go body: scans":                                                  "inputs",
	"runtime/lowering/shapes.go TypeOf: len(shape)":                                         "axes",
	"runtime/lowering/shapes.go compute: len(s.Args())":                                     "inputs",
	"runtime/session.go NewSession: len(m.inputs)":                                          "inputs",
	"runtime/session.go NewSession: len(m.outputs)":                                         "outputs",
}

// Reasons for allocations beside the account.
const (
	charges  = "it charges them itself"
	before   = "its caller has charged them"
	declared = "newExecutable holds them before: their size is that which the kernel declares (Bytes), or the plan has"
	weights  = "as large as weights of the graph"
	program  = "as large as the program"
)

// uncharged are the functions, files and packages that may allocate beside the account of an executable, with the
// reasons.
var uncharged = map[string]string{
	"runtime/inputs.go accept":                                             charges,
	"runtime/inputs.go convert":                                            charges,
	"runtime/inputs.go fits":                                               before,
	"runtime/inputs.go zeros":                                              charges,
	"runtime/stepmany.go add":                                              "one for each stream that the caller gives",
	"runtime/stepmany.go leaseJoint":                                       charges,
	"runtime/stepmany.go join":                                             charges,
	"runtime/stepper.go bind":                                              charges,
	"runtime/settle.go Settle":                                             "for tests of backends",
	"runtime/keep.go newPast":                                              "compared with the limit",
	"runtime/keep.go read":                                                 "as large as the state",
	"runtime/stream.go Reset":                                              "as large as the state",
	"runtime/stream.go State":                                              "as large as the state",
	"runtime/stream.go SetState":                                           "as large as the state",
	"runtime/lowering/memory.go":                                           charges,
	"runtime/lowering/frame.go NewFrame":                                   program,
	"runtime/lowering/frame.go PlaceText":                                  charges,
	"runtime/lowering/frame.go Begin":                                      charges,
	"runtime/lowering/frame.go Own":                                        charges,
	"runtime/lowering/frame.go result":                                     charges,
	"runtime/lowering/control_late.go place":                               charges,
	"runtime/lowering/control_late.go outside":                             charges,
	"runtime/lowering/control_loop.go newLooping":                          "one number",
	"runtime/lowering/control_loop.go Attach":                              "one bool for each stage",
	"runtime/lowering/control_loop.go grow":                                charges,
	"runtime/lowering/control_loop.go join":                                charges,
	"runtime/lowering/layout.go zeros":                                     weights,
	"runtime/lowering/print.go":                                            "text for people",
	"runtime/lowering/settled.go Numbers":                                  weights,
	"runtime/lowering/settled.go Numbers64":                                weights,
	"runtime/lowering/settled.go float64s":                                 weights,
	"runtime/lowering/lower.go fold":                                       "as large as what the budget for constants has granted",
	"runtime/lowering/shapes.go reset":                                     "a block for the inputs of a node",
	"runtime/lowering/shapes.go concrete":                                  "one for each axis",
	"runtime/session.go nextContents":                                      charges,
	"runtime/set.go contents":                                              "one for each parameter",
	"runtime/set.go noParameter":                                           "one for each parameter",
	"runtime/set.go copyOf":                                                weights,
	"runtime/set.go Read":                                                  weights,
	"runtime/cpu/internal/tensors/convolution/winograd.go fillFactors":     weights,
	"runtime/lowering/shapes.go sizes":                                     "one number for each axis",
	"runtime/lowering/shapes.go Ints":                                      weights,
	"runtime/lowering/shapes.go cleared":                                   "one for each input of a node",
	"runtime/ref/eval.go Run":                                              charges,
	"runtime/cpu/internal/record/row.go Narrow":                            weights,
	"runtime/cpu/internal/record/windowed.go":                              "one number for each tap",
	"runtime/cpu/internal/elementwise/row.go widened":                      "one row; a worker's scratch, which is held, has several",
	"runtime/cpu/internal/windowed":                                        weights,
	"runtime/cpu/internal/recurrence":                                      declared + "; " + weights,
	"runtime/cpu/internal/rows":                                            weights,
	"runtime/cpu/internal/streaming/gated.go Attach":                       declared,
	"runtime/cpu/internal/streaming/pick.go Attach":                        declared,
	"runtime/cpu/internal/streaming/selective.go Attach":                   declared,
	"runtime/cpu/internal/tensors/reductions/batchnorm.go":                 weights,
	"runtime/cpu/internal/tensors/convolution/conv.go":                     weights,
	"runtime/cpu/internal/tensors/convolution/convtranspose.go":            weights,
	"runtime/cpu/internal/tensors/convolution/convtransposend.go":          weights,
	"runtime/cpu/internal/tensors/convolution/depthconv.go NewChannelConv": weights,
	"runtime/cpu/internal/tensors/products/einsum.go newEinsum":            program,
	"runtime/cpu/internal/tensors/integers/products.go ints":               weights,
	"runtime/cpu/internal/tensors/integers/conv.go":                        weights,
	"runtime/cpu/internal/tensors/integers/depth.go asDepth":               weights,
	"runtime/cpu/internal/tensors/integers/depthquads.go asQuadDepth":      weights,
	"runtime/cpu/internal/tensors/integers/quads.go":                       weights,
	"runtime/cpu/internal/tensors/integers/table.go byteTableKernel":       "256 bytes",
	"runtime/cpu/internal/tensors/convolution/matrixconv.go":               declared,
	"runtime/cpu/internal/tensors/moves/move.go movement":                  "within the room of the account, and dropped",
	"runtime/cpu/internal/tensors/moves/move.go sliced":                    "one number for each axis",
	"runtime/cpu/internal/tensors/convolution/panelconv.go weightOffsets":  weights,
	"runtime/cpu/internal/tensors/integers/quantize.go":                    weights,
	"runtime/cpu/internal/tensors/sequences/recurrent.go recurrentWeights": weights,
	"runtime/cpu/internal/tensors/convolution/winograd.go asFactors":       declared,
	"runtime/cpu/control.go equip":                                         charges,
	"runtime/cpu/exec.go newExecutable":                                    declared,
	"runtime/cpu/exec.go floats":                                           "its callers have held them",
	"runtime/cpu/pool.go setup":                                            declared,
	"runtime/cpu/recurrence_state.go holdState":                            declared,
	"runtime/cpu/region_sums.go attach":                                    declared,
	"runtime/cpu/ring.go attach":                                           declared,
	"runtime/cpu/tune.go":                                                  "the program's own measurements",
}

// converts returns the function of package ops that a call allocates by: with a context without a budget, as those are
// that end the copying of inputs and outputs, it charges nothing.
func converts(call *ast.CallExpr, info *types.Info) string {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	o, ok := info.Uses[f.Sel].(*types.Func)
	if !ok {
		return ""
	}
	switch name := o.FullName(); strings.TrimPrefix(name, module+"/ops.") {
	case "Copy", "CopyOf", "Convert", "Int64s", "Float64s":
		return name
	}
	return ""
}

// TestCharges checks that packages that bind and run programs use the account of the executable (lowering.Make, Frame.Take,
// Frame.Hold, ops.Make): what follows from shapes or data is charged before it is allocated.
func TestCharges(t *testing.T) {
	load := loader(t, running)
	used := map[string]bool{}
	checked := 0
	for _, path := range running {
		files, info, fset := load(path)
		for _, f := range files {
			file := path + "/" + filepath.Base(fset.Position(f.Pos()).Filename)
			for _, d := range f.Decls {
				name := file
				if d, ok := d.(*ast.FuncDecl); ok {
					name += " " + d.Name.Name
				}
				complain := func(at token.Pos, what string) {
					for _, n := range []string{name, file, path} {
						if uncharged[n] != "" {
							used[n] = true
							return
						}
					}
					t.Errorf("%v: %s: %s is not charged; use lowering.Make, Frame.Take or the like", fset.Position(at), name, what)
				}
				ast.Inspect(d, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					checked++
					what := cmp.Or(allocates(call, info), converts(call, info))
					if strings.HasPrefix(what, "slices.Clone of ") && strings.Contains(what, module) {
						what = "" // parts of programs and models
					}
					if what != "" && !exempt(ofProgram, name, what, used) {
						complain(call.Pos(), what)
					}
					if f, ok := call.Fun.(*ast.SelectorExpr); ok && isFunc(info, f.Sel, module+"/ops.Walk") {
						ast.Inspect(call, func(n ast.Node) bool {
							if c, ok := n.(*ast.CallExpr); ok {
								if f, ok := c.Fun.(*ast.Ident); ok && f.Name == "append" {
									complain(c.Pos(), "append for each offset")
								}
							}
							return true
						})
					}
					return true
				})
			}
		}
	}
	for name := range ofProgram {
		if !used[name] {
			t.Errorf("%s is not allocated: the exception is not needed", name)
		}
	}
	for name := range uncharged {
		if !used[name] {
			t.Errorf("%s allocates nothing: the exception is not needed", name)
		}
	}
	if checked < 5000 {
		t.Errorf("%d calls are checked", checked)
	}
}

func isFunc(info *types.Info, id *ast.Ident, name string) bool {
	o, ok := info.Uses[id].(*types.Func)
	return ok && o.FullName() == name
}
