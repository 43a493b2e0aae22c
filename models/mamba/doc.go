// Package mamba is the families Mamba (Gu, Dao, 2023) and Mamba-2 (Dao, Gu, 2024): language models of selective
// state-space layers, with the configuration and the tensors of model hubs, or those of the released code.
//
//	block: h = h + mixer(norm(h)); after the last block, logits = lm_head(norm(h)) of every step
//
//	Mamba    [x, z] = in_proj(h),  x = silu(conv(x)),  [δ, B, C] = x_proj(x),  Δ = softplus(dt_proj(δ)),
//	         A = -exp(A_log),  s[t] = exp(Δ A) s[t-1] + Δ x B,  y = s C + D x,  mixer = out_proj(y silu(z))
//	Mamba-2  [z, x, B, C, δ] = in_proj(h),  [x, B, C] = silu(conv(x, B, C)),  Δ = clamp(softplus(δ + dt_bias)),
//	         one for a head;  s and y as above, with one A and D for a head,  mixer = out_proj(norm(y silu(z)))
//
// It imports ir, ir/tensor, models, models/backbone and models/config.
package mamba
