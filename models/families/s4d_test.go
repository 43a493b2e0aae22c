package families_test

import (
	"math"
	"math/cmplx"
	"slices"
)

func init() {
	const sizes = "model.d_model=6 model.n_layers=2 model.layer.d_state=8 model.layer.dt_min=0.05 decoder.d_output=3 "
	for _, changes := range []string{"", "model.layer.dt_fast=true", "model.layer.dt_fast=true model.layer.dt_transform=softplus",
		"model.residual=N decoder.mode=first", "model.residual=F decoder.mode=last model.prenorm=true",
		"model.residual=null decoder.mode=first decoder.l_output=4", "model.residual=N decoder.mode=sum decoder.l_output=null",
		"model.bidirectional=true"} {
		plains = append(plains, plain{"s4d-cifar", sizes + changes, evalS4D})
	}
}

// evalS4D computes S4D of version 4 by sums over lags, with the rules that no reference case has: steps by sinh, other
// residuals, the first steps.
func evalS4D(e *evaluation) []float64 {
	var out []float64
	norm := func(x []float64, name string) []float64 {
		return e.layerNorm(x, name+".norm.norm.weight", name+".norm.norm.bias", 1e-5)
	}
	prenorm := e.set["model.prenorm"] == "true"
	for b := range e.batch {
		x := e.sequence(b, "")
		for t := range x {
			x[t] = e.linear(x[t], "encoder.0.weight", "encoder.0.bias", false)
		}
		for i := range 2 {
			name := numbered("model.layers.%d", i)
			u := make([][]float64, len(x))
			for t := range x {
				if u[t] = x[t]; prenorm {
					u[t] = norm(x[t], name)
				}
			}
			var second [][]float64
			if e.has(name + ".bidirectional_linear.bias") {
				second = layerS4D(e, u, name+".reverse_layer.")
			}
			for t, y := range layerS4D(e, u, name+".layer.") {
				if second != nil {
					y = e.linear(slices.Concat(y, second[t]), name+".bidirectional_linear.weight", name+".bidirectional_linear.bias", false)
				}
				if r := e.set["model.residual"]; r == "" || r == "R" {
					y = sum(x[t], y)
				}
				if x[t] = y; !prenorm {
					x[t] = norm(y, name)
				}
			}
		}
		total := make([]float64, len(x[0]))
		for t := range x {
			if prenorm {
				x[t] = norm(x[t], "model")
			}
			total = sum(total, x[t])
			if e.set["decoder.mode"] == "sum" {
				x[t] = total
			}
		}
		switch steps := e.set["decoder.l_output"]; {
		case steps == "4":
			x = x[:4]
		case steps == "null":
		case e.set["decoder.mode"] == "first":
			x = x[:1]
		case e.set["decoder.mode"] == "last":
			x = x[len(x)-1:]
		default:
			for c := range total {
				total[c] /= float64(len(x))
			}
			x = [][]float64{total}
		}
		for _, v := range x {
			out = append(out, e.linear(v, "decoder.0.output_transform.weight", "decoder.0.output_transform.bias", false)...)
		}
	}
	return out
}

func layerS4D(e *evaluation, u [][]float64, name string) [][]float64 {
	read := func(part string) []float64 { v, _ := e.weight(name + "layer." + part); return v }
	aRe, aIm, b, c := read("kernel.A_real"), read("kernel.A_imag"), read("kernel.B"), read("kernel.C")
	step, direct := read("kernel.inv_dt"), read("D")
	d := len(step)
	n := len(aRe) / d
	y := make([][]float64, len(u))
	for t := range u {
		y[t] = times(direct, u[t])
	}
	for h := range d {
		dt := step[h]
		if e.set["model.layer.dt_fast"] == "true" {
			dt = math.Sinh(dt)
		}
		if dt = math.Exp(dt); e.set["model.layer.dt_transform"] == "softplus" {
			dt = math.Log(1 + dt)
		}
		for k := range u {
			lag := 0.0
			for i := range n {
				at := h*n + i
				lambda := complex(-math.Exp(aRe[at]), -aIm[at])
				x := lambda * complex(dt, 0)
				v := complex(c[2*at], c[2*at+1]) * complex(b[2*at], b[2*at+1]) * (cmplx.Exp(x) - 1) / lambda
				lag += 2 * real(v*cmplx.Exp(x*complex(float64(k), 0)))
			}
			for t := k; t < len(u); t++ {
				y[t][h] += lag * u[t-k][h]
			}
		}
	}
	for t := range y {
		for h, v := range y[t] {
			y[t][h] = v / 2 * (1 + math.Erf(v/math.Sqrt2))
		}
		both := e.linear(y[t], name+"output_linear.0.weight", name+"output_linear.0.bias", false)
		y[t] = times(both[:d], sigmoids(both[d:]))
	}
	return y
}
