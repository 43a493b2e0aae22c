// Package s4 is the families S4D, S4 and Liquid-S4: state-space layers of one system with one input and one output for
// each feature. Systems of S4D are diagonal (Gu, Gupta, Goel, Ré, On the Parameterization and Initialization of
// Diagonal State Space Models, 2022), as in state-spaces/s4, version 4, with mode "diag"; those of S4 are diagonal plus
// low rank (mode "nplr"), and Liquid-S4 adds products of the input.
//
//	λ = -f(A_real) - i·f(A_imag), Δ = f(inv_dt), x = Δλ
//	zoh:       K[k] = 2 Re Σ C B (eˣ - 1)/λ · e^{xk}
//	bilinear:  K[k] = 2 Re Σ C B Δ/(1 - x/2) · ((1 + x/2)/(1 - x/2))ᵏ
//	y = K * u + D u, and bidirectional a second kernel of its own C, which sees later steps only
//	out = final_act(W·mult_act(activation(y)) + b)
//
// It imports ir, models, models/backbone and models/config, and ops/essm/spectral for initialization.
package s4
