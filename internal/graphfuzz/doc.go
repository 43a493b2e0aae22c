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
// The package may import everything. It holds no state between cases but counts.
package graphfuzz
