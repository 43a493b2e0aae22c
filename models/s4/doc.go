// Package s4 is the family S4D: diagonal state-space layers, one system with one input and one output for each feature
// (Gu, Gupta, Goel, Ré, On the Parameterization and Initialization of Diagonal State Space Models, 2022), as in
// state-spaces/s4, version 4, with mode "diag".
//
//	λ = -f(A_real) - i·f(A_imag), Δ = f(inv_dt), x = Δλ
//	zoh:       K[k] = 2 Re Σ C B (eˣ - 1)/λ · e^{xk}
//	bilinear:  K[k] = 2 Re Σ C B Δ/(1 - x/2) · ((1 + x/2)/(1 - x/2))ᵏ
//	y = K * u + D u, and bidirectional a second kernel of its own C, which sees later steps only
//	out = final_act(W·mult_act(activation(y)) + b)
//
// It imports ir, models, models/backbone and models/config, and ops/essm/spectral for initialization.
package s4
