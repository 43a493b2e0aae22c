// Package families imports all families of models, which register themselves. It has no code of its own.
package families

import (
	_ "github.com/essmc/essmc/models/cdil" // CDIL-CNN, and the TCN of its code
	_ "github.com/essmc/essmc/models/ckconv"
	_ "github.com/essmc/essmc/models/dss"
	_ "github.com/essmc/essmc/models/essm" // the deep eSSM of the paper
	_ "github.com/essmc/essmc/models/fnet"
	_ "github.com/essmc/essmc/models/lra" // the Transformer of the Long Range Arena
	_ "github.com/essmc/essmc/models/lru"
	_ "github.com/essmc/essmc/models/lstm"
	_ "github.com/essmc/essmc/models/mamba"
	_ "github.com/essmc/essmc/models/minrnn"
	_ "github.com/essmc/essmc/models/s4" // S4 and S4D
	_ "github.com/essmc/essmc/models/s5"
	_ "github.com/essmc/essmc/models/transformer"
)
