package families_test

import (
	"math"
	"math/cmplx"
	"testing"

	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
)

func init() {
	for _, changes := range []string{"step_rescale=2", "step_rescale=0.5 discretization=bilinear conj_sym=false activation_fn=full_glu mode=last",
		"bidirectional=true clip_eigs=true prenorm=false batchnorm=false activation_fn=half_glu2",
		"bidirectional=true C_init=complex_normal padded=true activation_fn=gelu step_rescale=3"} {
		plains = append(plains, plain{"s5-smnist", "d_model=6 n_layers=2 ssm_size_base=8 dt_min=0.05 d_output=4 " + changes, evalFlax})
	}
	for _, changes := range []string{"", "multidim=3", "multidim=2 pooling=none norm=layer prenorm=false", "pooling=last multidim=5"} {
		plains = append(plains, plain{"lru-smnist", "d_model=6 n_layers=2 d_hidden=8 d_output=4 " + changes, evalFlax})
	}
}

// evalFlax computes S5 or LRU step by step.
func evalFlax(e *evaluation) []float64 {
	var out []float64
	for b := range e.batch {
		x := e.sequence(b, "")
		for t := range x {
			x[t] = e.linear(x[t], "params.encoder.encoder.kernel", "params.encoder.encoder.bias", true)
		}
		for i := range 2 {
			x = blockFlax(e, x, numbered("encoder.layers_%d.", i))
		}
		pooled := x
		mode := e.set["pooling"] + e.set["mode"]
		switch mode {
		case "last":
			pooled = x[len(x)-1:]
		case "none":
		default:
			n := len(x)
			if e.set["padded"] == "true" {
				n = int(tensor.Data[int64](e.in[models.Lengths].(*tensor.Tensor))[b])
			}
			mean := make([]float64, len(x[0]))
			for _, v := range x[:n] {
				for c := range v {
					mean[c] += v[c] / float64(n)
				}
			}
			pooled = [][]float64{mean}
		}
		for _, v := range pooled {
			logits := e.linear(v, "params.decoder.kernel", "params.decoder.bias", true)
			groups := 1
			if e.set["multidim"] != "" {
				groups = e.number(e.set["multidim"])
			}
			if groups == 1 {
				groups = len(logits) // all are one group
			}
			for g := 0; g < len(logits); g += groups {
				total := 0.0
				for _, z := range logits[g : g+groups] {
					total += math.Exp(z)
				}
				for _, z := range logits[g : g+groups] {
					out = append(out, z-math.Log(total))
				}
			}
		}
	}
	return out
}

func blockFlax(e *evaluation, x [][]float64, name string) [][]float64 {
	norm := func(v []float64) []float64 {
		at := name + "norm"
		if e.has("params." + name + "normalization.scale") {
			at = name + "normalization"
		}
		if !e.has("batch_stats." + at + ".mean") {
			return e.layerNorm(v, "params."+at+".scale", "params."+at+".bias", 1e-6)
		}
		mean, _ := e.weight("batch_stats." + at + ".mean")
		variance, _ := e.weight("batch_stats." + at + ".var")
		scale, _ := e.weight("params." + at + ".scale")
		bias, _ := e.weight("params." + at + ".bias")
		y := make([]float64, len(v))
		for c := range v {
			y[c] = (v[c]-mean[c])/math.Sqrt(variance[c]+1e-5)*scale[c] + bias[c]
		}
		return y
	}
	u := make([][]float64, len(x))
	for t := range x {
		if u[t] = x[t]; e.set["prenorm"] != "false" {
			u[t] = norm(x[t])
		}
	}
	y := systemFlax(e, u, "params."+name+"seq.")
	for t := range y {
		g := make([]float64, len(y[t]))
		for c, v := range y[t] {
			g[c] = geluTanh(v)
		}
		gate := func(k string) []float64 {
			return e.linear(g, "params."+name+k+".kernel", "params."+name+k+".bias", true)
		}
		z := g
		switch kind := e.set["activation_fn"]; {
		case kind == "gelu":
		case e.has("params." + name + "out1.kernel"):
			z = times(gate("out1"), sigmoids(gate("out2")))
		case kind == "half_glu2":
			z = times(y[t], sigmoids(gate("out2")))
		default:
			z = times(g, sigmoids(gate("out2")))
		}
		if x[t] = sum(x[t], z); e.set["prenorm"] == "false" {
			x[t] = norm(x[t])
		}
	}
	return x
}

func sigmoids(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, z := range v {
		out[i] = 1 / (1 + math.Exp(-z))
	}
	return out
}

func times(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] * b[i]
	}
	return out
}

// systemFlax returns the outputs of a system of all features.
func systemFlax(e *evaluation, u [][]float64, name string) [][]float64 {
	d := len(u[0])
	var lambda []complex128
	var in, forward, backward [][]complex128 // in by state, the others by output
	gamma := 1.0
	if e.has(name + "nu_log") {
		nu, _ := e.weight(name + "nu_log")
		theta, _ := e.weight(name + "theta_log")
		scale, _ := e.weight(name + "gamma_log")
		bRe, _ := e.weight(name + "B_re")
		bIm, _ := e.weight(name + "B_im")
		cRe, _ := e.weight(name + "C_re")
		cIm, _ := e.weight(name + "C_im")
		in, forward = make([][]complex128, len(nu)), make([][]complex128, d)
		for i := range nu {
			lambda = append(lambda, cmplx.Exp(complex(-math.Exp(nu[i]), math.Exp(theta[i]))))
			for j := range d {
				in[i] = append(in[i], complex(math.Exp(scale[i]), 0)*complex(bRe[i*d+j], bIm[i*d+j]))
				forward[j] = append(forward[j], complex(cRe[j*len(nu)+i], cIm[j*len(nu)+i]))
			}
		}
	} else {
		re, _ := e.weight(name + "Lambda_re")
		im, _ := e.weight(name + "Lambda_im")
		step, _ := e.weight(name + "log_step")
		b, _ := e.weight(name + "B")
		p := len(re)
		rescale := 1.0
		if s := e.set["step_rescale"]; s != "" {
			rescale = map[string]float64{"2": 2, "0.5": 0.5, "3": 3}[s]
		}
		if e.set["conj_sym"] != "false" {
			gamma = 2
		}
		in = make([][]complex128, p)
		for i := range re {
			if e.set["clip_eigs"] == "true" {
				re[i] = math.Min(re[i], -1e-4)
			}
			l, dt := complex(re[i], im[i]), complex(rescale*math.Exp(step[i]), 0)
			value := cmplx.Exp(l * dt)
			scale := (value - 1) / l
			if e.set["discretization"] == "bilinear" {
				value, scale = (1+dt*l/2)/(1-dt*l/2), dt/(1-dt*l/2)
			}
			lambda = append(lambda, value)
			for j := range d {
				in[i] = append(in[i], scale*complex(b[2*(i*d+j)], b[2*(i*d+j)+1]))
			}
		}
		read := func(part string, from int) [][]complex128 {
			c, shape := e.weight(name + part)
			out := make([][]complex128, d)
			for j := range d {
				for i := range p {
					at := 2 * (j*shape[1] + from + i)
					out[j] = append(out[j], complex(c[at], c[at+1]))
				}
			}
			return out
		}
		switch {
		case e.has(name + "C1"):
			forward, backward = read("C1", 0), read("C2", 0)
		case e.set["bidirectional"] == "true":
			forward, backward = read("C", 0), read("C", p)
		default:
			forward = read("C", 0)
		}
	}
	direct, _ := e.weight(name + "D")
	y := make([][]float64, len(u))
	for t := range u {
		y[t] = times(direct, u[t])
	}
	scan := func(c [][]complex128, order func(t int) int) {
		z := make([]complex128, len(lambda))
		for k := range u {
			t := order(k)
			for i := range z {
				z[i] *= lambda[i]
				for j, v := range u[t] {
					z[i] += in[i][j] * complex(v, 0)
				}
			}
			for j := range y[t] {
				for i := range z {
					y[t][j] += gamma * real(c[j][i]*z[i])
				}
			}
		}
	}
	scan(forward, func(t int) int { return t })
	if backward != nil {
		scan(backward, func(t int) int { return len(u) - 1 - t })
	}
	return y
}

// TestPublishedSizes checks the numbers of parameters that papers state for 35 words of Speech Commands: S4 307 thousand,
// S4D 306 thousand, S5 280 thousand. Those of S5 are its blocks', without the encoder and the decoder.
func TestPublishedSizes(t *testing.T) {
	for _, c := range []struct {
		id           string
		want, beside int
	}{{"s4-sc35", 307, 0}, {"s4d-sc35", 306, 0}, {"s5-sc35", 280, 2*96 + (96+1)*35}} {
		n, err := models.Parameters(preset(t, c.id).Config, nil)
		if err != nil {
			t.Fatal(err)
		}
		if (n-c.beside+500)/1000 != c.want {
			t.Errorf("%s has %d parameters, %d of them beside blocks, expected %d thousand", c.id, n, c.beside, c.want)
		}
	}
}
