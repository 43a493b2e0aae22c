// Package graphfuzz generates random graphs over all operators and tests the CPU backend, the passes and the file
// formats on them. Only this package's own tests use it.
//
// # Cases
//
// A case is a graph of some nodes, with the inputs of one to three runs (Generate). Each node is computed as it is
// added, so later choices fit the values that exist by then. A node comes from an operator's signature, from its
// samples (ops/opstest/samples), or from a recipe for the operator. Graphs have:
//
//   - constants and inputs, of all element types, some with infinities and NaN
//   - symbolic dimensions, which later runs bind to other sizes, and empty tensors
//   - older operator sets
//   - branches and loops that nest and capture
//   - sequences and optionals
//   - in one of 32 cases, hundreds to thousands of nodes, of inputs or outputs of a node, of outputs of the graph, or
//     of values that are alive together or that a Loop carries (broad)
//   - in another one, strings, tensors or sequences that a Loop doubles, and operators that copy them (doubles)
//
// Choices come from a seed or from bytes, so the fuzzer of package testing can change one of them.
//
// # What counts as a fault
//
// The interpreter in float64 is the reference. An answer is right if it is within four times the interpreter's own
// float32 error. Otherwise the graph is evaluated again in float64, with a random error as large as the operator's
// tolerance (ir.Op.Tol) after each node; the answer may then be four times as far off as those results are. An
// ill-conditioned graph, a tie, or an index that depends on the last digits is therefore not a fault. Graphs of
// exact operators must also have the same signs of zeros.
//
// Some runs must repeat the answer bit by bit: with two threads, a second time, into given tensors, from printed
// text, from a plan, after a cancelled run, and with little memory (unless that gives a *runtime.MemoryError).
// Others are judged like the first one: after the passes, of an exported and imported model, in each form of
// recurrences, in low precision, and as streams of random chunks with snapshots. Inputs must stay unchanged. If the
// interpreter refuses a run, the backend must too, unless only the sizes of open dimensions contradict each other.
//
// # Running it
//
//	go test ./internal/graphfuzz                                       fixed seeds, and the cases in testdata/found
//	ESSMC_FUZZ_SHAPES=1000 go test ./internal/graphfuzz -run TestShapes   only graphs that are broad, or double
//	go test ./internal/graphfuzz -fuzz FuzzGraphs -fuzzminimizetime 1x
//	ESSMC_FUZZ=1h go test ./internal/graphfuzz -run TestLong -timeout 0
//
// TestLong documents the variables of the long mode. It prints graphs per second and the coverage: operators,
// element types, and how the CPU backend ran them. A fault is reduced (Shrink) and written to a file; TestFound runs
// the file once it is in testdata/found. ESSMC_KERNELS selects the kernel variant.
//
// # ONNX Runtime
//
// If ESSMC_PYTHON is a Python with onnxruntime and numpy, TestLong and TestONNXRuntime also run graphs there, in one
// process for all graphs. Its answers are judged like the backend's. It may refuse a graph. It does not get
// operators of other domains, empty tensors, NaN, large numbers, or the operators in the table of ort_test.go, which
// gives the reasons.
//
// # Planted faults
//
// TestPlanted builds this package with one fault at a time and runs the long mode from seed 0. The figures are from
// one thread on a machine with many other processes, so the seconds say little.
//
//	 1  a wrong tie                         2265 graphs,  70.3 s
//	 2  a lost NaN                          1300 graphs,  42.7 s
//	 3  a wrong bound                         36 graphs,   5.6 s
//	 4  swapped operands                      37 graphs,   2.0 s
//	 5  a stale buffer                       210 graphs,  22.3 s
//	 6  a state that is not reset            188 graphs,  16.9 s
//	 7  a wrong axis                          26 graphs,   2.2 s
//	 8  a pad that is off by one               6 graphs,   4.1 s
//	 9  a lost -0                            144 graphs,   2.3 s
//	10  an alias in place                    147 graphs,  26.2 s
//	11  a wrong broadcast                      2 graphs,   0.3 s
//	12  an overflow of integers             2943 graphs, 186.9 s
//	13  exchanged operands of an epilogue    391 graphs,  22.5 s
//	14  the border of a chunk                  1 graph,    6.2 s
//	15  an answer that depends on threads    644 graphs,  14.6 s
//	16  a dropped capture                     85 graphs,   2.1 s
//	17  a wrong default                       40 graphs,   0.6 s
//	18  a pass that removes values in use     27 graphs,   9.1 s
//	19  a pass that overlooks attributes     644 graphs,  25.3 s
//	20  a stream state mixed with another    178 graphs,  15.0 s
//
// # Faults found so far
//
// The first 2 million graphs (6.6 hours of processor time on the AVX-512, AVX2 and generic kernels) found the faults
// below. All are fixed, and their cases are in testdata/found:
//
//   - contradictory sizes: panics of ten evaluations and of Concat, and answers of the backend where operators refuse
//   - empty sequences and batches; transA = 2 of Gemm
//   - streams of Trilu, BatchNormalization, CumSum with a computed axis, reductions of the batch, constants, and an
//     LSTM of one sample
//   - raising of loops of other types, of empty loops, and of a batch norm whose statistics are read
//   - dead outputs of a Block; Resize with a crop in mode nearest; a ring too short for a second reader; a Reshape to
//     an unknown rank that was dropped; classes below 0
//   - selective scans shared by bindings with different numbers of states
//
// Later runs found dimensions computed in integers that wrap around; windows longer than their input; empty batches
// and dimensions; a mean whose rounding was as large as the differences from it; in streams, operands with an
// element per step and captures of blocked values; symbols of bodies; and sizes that bodies accept and their
// operators refuse.
//
// The next 900,000 graphs found products of integer vectors of a wrong rank, a negative new_axis, NaN as a bound of
// Clip, one scale for all groups of a norm, an Einsum that broadcasts along time in a stream, and a convolution
// without taps. By the end there was one fault per 100,000 graphs.
//
// The runs after that found a gated scan of unknown rank, a Transpose with a negative axis in the passes, a low-rank
// system of infinities, layout rules that did not end on two constants, a huge length of a response without
// features, and a bound of BiasAdd that did not count its first sum. The last 200,000 graphs found two of these.
//
// One known fault remains: a Scan of zero trips whose body captures its result. The interpreter takes 0 for a
// dimension that the graph's inputs determine, and refuses what follows; the backend does not.
//
// Gelu has few correct digits below -2 and is judged by its argument. Windows over unstable systems are judged by
// the growth of their powers. Operators on maps are not generated.
//
// The package may import everything. Between cases it keeps no state but counts.
package graphfuzz
