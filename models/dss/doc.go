// Package dss is the family DSS: diagonal state-space layers whose states all features share, one system with one input
// and one output for each feature (Gupta, Gu, Berant, Diagonal State Spaces are as Effective as Structured State
// Spaces, 2022), as in ag1988/dss, standalone.
//
//	x = Δλ, N states without conjugates
//	exp, clip:     K[k] = Re Σ W (eˣ - 1)·λ̄/max(|λ|², ε) · e^{xk};  no-scale: Re Σ W e^{xk}
//	softmax:       powers are normalized over the length of the sequence (docs/math.md, Softmax kernels)
//	y = K * u + D u, and bidirectional a second kernel of its own W, which sees later steps only
//	out = postact(W·activation(y) + b)
//
// It imports ir, models, models/backbone and models/config, and ops/essm/spectral for initialization.
package dss
