// Package graphfuzz makes random graphs over all operators and holds the CPU backend, the passes and the formats against
// their definition. It is for tests, of this package alone.
//
// # Cases
//
// A case is a graph of some nodes with the inputs of one to three runs (Generate). Each node is computed as it is added,
// so that later choices fit the values that there are: operators take them, and operands of their signature, their samples
// (ops/opstest/samples), or what a recipe of the operator states. Graphs have constants and inputs, symbols of dimensions
// that later runs bind to other sizes, empty tensors, all element types, older operator sets, branches and loops that nest
// and capture, sequences and optionals; some hold infinities and NaN. Choices come from a seed or from bytes, so that the
// fuzzer of package testing can change one of them.
//
// # Judges
//
// The interpreter in float64 is the truth. An answer is right if it is within four times the interpreter's own error in
// float32. If not, the graph is evaluated again in float64 with random errors as large as the operators' tolerances
// (ir.Op.Tol) after each node, and the answer may be four times as far away as those. So an ill-conditioned graph, a tie or
// an index that depends on digits is no fault. Graphs of exact operators must also have the signs of zeros.
//
// Other answers must be the same bit by bit: with two threads, in a second run, into given tensors, from printed text, from
// a plan, with little memory (or a *runtime.MemoryError), after a run that was cancelled. Answers after the passes, of an
// exported and imported model, of each form of recurrences, of low precision, and of streams in random chunks with
// snapshots are judged as the plain ones are. Inputs must stay as they are. Where the interpreter refuses a run, so must
// the backend, unless only sizes of open dimensions contradict each other.
//
// # Running it
//
//	go test ./internal/graphfuzz                                       fixed seeds, and the cases in testdata/found
//	go test ./internal/graphfuzz -fuzz FuzzGraphs -fuzzminimizetime 1x
//	ESSMC_FUZZ=1h go test ./internal/graphfuzz -run TestLong -timeout 0
//
// See TestLong for the variables of the long mode. It prints graphs per second and the coverage: operators, with element
// types, and with the way in which the CPU backend runs them. A fault is made smaller (Shrink) and written as a file that
// TestFound runs when it is put into testdata/found. ESSMC_KERNELS selects the variant of the kernels as everywhere.
//
// # ONNX Runtime
//
// If ESSMC_PYTHON names a Python with onnxruntime and numpy, TestLong and TestONNXRuntime ask it as well, in one process
// that answers graph after graph. Its answers are judged as those of the backend are. It may refuse; not asked are operators
// of other domains, empty tensors, NaN and large numbers, and the operators in the table of ort_test.go, with reasons.
//
// # Planted faults
//
// TestPlanted builds this package with one fault at a time and runs the long mode on it, from seed 0 on, with one thread on
// a machine that was in use otherwise. The figures, but for 15, are of the generator before graphs had operators of all
// domains.
//
//	 1  a wrong tie                         748 graphs, 23.2 s
//	 2  a lost NaN                          695 graphs, 22.1 s
//	 3  a wrong bound                       914 graphs, 11.3 s
//	 4  swapped operands                     84 graphs,  2.5 s
//	 5  a stale buffer                      889 graphs,  8.0 s
//	 6  a state that is not reset            70 graphs,  1.1 s
//	 7  a wrong axis                        525 graphs,  5.6 s
//	 8  a pad that is off by one            182 graphs, 23.5 s
//	 9  a lost -0                            82 graphs,  0.9 s
//	10  an alias in place                   305 graphs, 15.6 s
//	11  a wrong broadcast                     6 graphs,  0.4 s
//	12  an overflow of integers             345 graphs,  5.2 s
//	13  exchanged operands of an epilogue    84 graphs,  1.9 s
//	14  the border of a chunk                72 graphs,  5.9 s
//	15  an answer that depends on threads    608 graphs, 31.2 s
//	16  a dropped capture                   282 graphs, 11.5 s
//	17  a wrong default                     298 graphs,  4.5 s
//	18  a pass that removes values in use    92 graphs,  2.3 s
//	19  a pass that overlooks attributes    414 graphs,  3.4 s
//	20  a state of a stream in another's     63 graphs,  0.7 s
//
// # Faults that it has found
//
// Some 2 million graphs in 6.6 hours of processor time, on the kernels for AVX-512 and AVX2 and the generic ones, showed the
// faults whose cases are in testdata/found, all mended: sizes that contradict each other (panics of ten evaluations, of
// Concat, and answers of the backend where operators refuse them), empty sequences and batches, transA = 2 of Gemm, streams
// of Trilu, BatchNormalization, CumSum with a computed axis, reductions of the batch, constants, and an LSTM of one sample;
// raising of loops of other types, empty ones, and of a batch norm whose statistics are read; dead outputs of a Block;
// Resize with a crop in mode nearest; a ring that was too short for a second reader; a Reshape to an unknown rank that was
// dropped; classes below 0; selective scans that were shared by bindings of different numbers of states.
//
// Later runs showed dimensions that were computed in integers which wrap around, windows longer than their input, empty
// batches and dimensions, a mean whose rounding was as large as the differences from it, operands with an element for each
// step and captures of blocked values in streams, symbols of bodies, and sizes that bodies took and their operators refuse.
//
// The last 900,000 graphs showed products of integer vectors of a wrong rank, a negative new_axis, NaN as a bound of Clip, one
// scale for all groups of a norm, an Einsum that broadcasts along time in a stream, and a convolution with no taps: one fault in
// 100,000 graphs at the end.
//
// Then came a gated scan of unknown rank, a Transpose with a negative axis among the passes, a low-rank system of infinities,
// layout rules without end on two constants, and a huge length of a response without features; and a bound of BiasAdd that
// did not count its first sum. The last 200,000 graphs showed two of these.
//
// Known and left: a Scan of no trips whose body captures its result. The interpreter takes 0 for a dimension that the graph's
// inputs tell, and refuses what follows; the backend does not.
//
// Gelu has few digits below -2, and is judged by its argument; windows over systems that are not stable are judged by the
// growth of their powers. Operators on maps are not reached.
//
// The package may import everything. It holds no state between cases but counts.
package graphfuzz
