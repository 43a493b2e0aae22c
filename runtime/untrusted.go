package runtime

import "github.com/essmc/essmc/runtime/plan"

// Untrusted returns options for untrusted models and inputs. A service then holds at most the file and its packed
// weights for each model, and MaxMemory for each session and each step that runs at the same time:
//
//	Threads    1                 calls are concurrent, and one does not take the processors of others
//	MaxMemory  256 MiB           of a session, or of a step of a stream, with its outputs
//	Copy       true              a file that is truncated while it is in use does no harm
//	RefuseUpdates  true          writes into parameters cannot be interrupted
//	Limits     256 MiB, 16 MiB, 100,000, 16, 4096
//	                             of a plan: file, metadata, nodes, depth, inputs or outputs of a node
//
// These are far above the needs of models for sequences, and a program may set others. It should give each call a
// context with a deadline, which limits the work. Compilation from other forms has limits too, see open.Untrusted.
func Untrusted(b Backend) Options {
	return Options{
		Backend: b, Threads: 1, MaxMemory: 256 << 20, Copy: true, RefuseUpdates: true,
		Limits: plan.Limits{FileBytes: 256 << 20, MetadataBytes: 16 << 20, Nodes: 100_000, Depth: 16, Ports: 4096},
	}
}
