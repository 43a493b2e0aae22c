package checkpoint

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/essmc/essmc/ir/tensor"
	family "github.com/essmc/essmc/models/essm"
	"github.com/essmc/essmc/ops/essm"
)

// convert converts the authors' configuration (docs/math.md, Checkpoints of the released code). The encoder and the
// sizes follow from the tensors. If the configuration states them too, both must agree. Defaults are those of the
// released code's constructors, not of config.json.
func convert(root any, tensors map[string]*tensor.Tensor) (*family.Config, []string, error) {
	m, path, err := findModel(root)
	if err != nil {
		return nil, nil, err
	}
	l := &log{}
	top := &section{path: path, m: m, log: l}
	s, err := sizesOf(tensors)
	if err != nil {
		return nil, nil, err
	}
	c := family.Default()
	c.DModel, c.NLayers = s.dModel, s.layers
	convertModel(c, top.sub("model"), s, tensors)
	convertEncoder(c, top, tensors)
	convertDecoder(c, top, tensors)
	for _, key := range slices.Sorted(maps.Keys(m)) { // the other keys are for training, data and logging
		if !slices.Contains(top.known, key) {
			top.ignore(key)
		}
	}
	if l.err != nil {
		return nil, nil, l.err
	}
	return c, l.notes, c.Validate()
}

// findModel finds the mapping that holds the section model, at the top or under keys such as config or hparams.
func findModel(root any) (m map[string]any, path string, err error) {
	type place struct {
		m    map[string]any
		path string
	}
	top, ok := root.(map[string]any)
	if !ok {
		return nil, "", fmt.Errorf("found %s where a mapping should be", show(root))
	}
	level := []place{{top, ""}}
	for depth := 0; depth < 4 && len(level) > 0; depth++ {
		var found, next []place
		for _, p := range level {
			if sub, ok := p.m["model"].(map[string]any); ok && (sub["layer"] != nil || sub["d_model"] != nil) {
				found = append(found, p)
			}
			for _, key := range slices.Sorted(maps.Keys(p.m)) {
				if sub, ok := p.m[key].(map[string]any); ok {
					next = append(next, place{sub, strings.TrimPrefix(p.path+"."+key, ".")})
				}
			}
		}
		switch len(found) {
		case 0:
			level = next
		case 1:
			return found[0].m, found[0].path, nil
		default:
			return nil, "", fmt.Errorf("sections model under both %q and %q", found[0].path, found[1].path)
		}
	}
	keys := slices.Sorted(maps.Keys(top))
	return nil, "", fmt.Errorf("expected a section model with d_model, n_layers and layer, found the keys %.200q", keys)
}

// sizes holds the sizes that follow from the tensors of the first layer.
type sizes struct {
	dModel, layers, channels, heads, states int
	full                                    bool // A in place of Lambda
	sharedDt                                bool
	d                                       string
}

func sizesOf(tensors map[string]*tensor.Tensor) (*sizes, error) {
	const prefix = "model.layers.0.layer."
	b, dt := tensors[anchor], tensors[prefix+"log_dt"]
	if b == nil || b.Rank() != 4 {
		return nil, fmt.Errorf("tensor %s: expected the shape (channels, heads, states, inputs), found %s", anchor, b)
	}
	if dt == nil || dt.Rank() != 3 {
		return nil, fmt.Errorf("tensor %slog_dt: expected the shape (channels, heads, states or 1), found %s", prefix,
			dt)
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("tensor %s: expected elements, found %s", anchor, b)
	}
	s := &sizes{channels: b.Dim(0), heads: b.Dim(1), states: b.Dim(2), dModel: b.Dim(1) * b.Dim(3), d: "none"}
	s.full = tensors[prefix+"A"] != nil
	s.sharedDt = dt.Dim(2) == 1 && (s.states > 1 || s.full)
	if d := tensors[prefix+"D"]; d != nil {
		s.d = "diagonal"
		if d.Rank() == 4 {
			s.d = "full"
		}
	}
	for tensors[fmt.Sprintf("model.layers.%d.layer.B", s.layers)] != nil {
		s.layers++
	}
	return s, nil
}

func convertModel(c *family.Config, m *section, s *sizes, tensors map[string]*tensor.Tensor) {
	m.same("d_model", s.dModel, "features")
	m.same("n_layers", s.layers, "layers")
	c.Prenorm = m.bool("prenorm", true)
	convertNorm(c, m, tensors)
	m.ignore("_name_", "dropout", "dropinp", "init", "verbose", "track_norms", "transposed")
	if r := m.sub("residual"); r != nil {
		if name, ok := r.text("_name_"); !ok || name != "R" && name != "residual" {
			r.wrong("_name_", "R (x + y)", name)
		}
		r.done()
	}
	if p := m.sub("pool"); p != nil {
		p.ignore("_name_")
		for _, key := range []string{"pool", "expand", "stride"} {
			p.only(key, 1, "pooling between layers is not supported")
		}
		p.done()
	}
	for _, key := range []string{"encoder", "decoder"} {
		if v, ok := m.set(key); ok {
			m.wrong(key, "null: the released code has its "+key+" beside the model", v)
		}
	}
	if layer := m.sub("layer"); layer != nil {
		convertLayer(c, layer, s)
	} else {
		m.log.fail("%s: is missing", m.key("layer"))
	}
	m.done()
}

// convertNorm reads norm. The norm "layer" depends on the layout of the released model: in the usual, transposed
// layout it is the scalar form. The tensors tell which one it is.
func convertNorm(c *family.Config, m *section, tensors map[string]*tensor.Tensor) {
	n := m.sub("norm")
	if n == nil {
		c.Norm = "none"
		if _, ok := m.m["norm"]; !ok {
			m.log.note("%s: is absent, the released code's default null was taken", m.key("norm"))
		}
		return
	}
	c.Norm, _ = n.text("_name_")
	if !slices.Contains([]string{"layer", "batch", "instance", "none"}, c.Norm) {
		m.wrong("norm", "one of layer, batch, instance, none", c.Norm)
	}
	if c.Norm == "layer" && tensors["model.layers.0.norm.norm.weight"] == nil {
		c.Norm = "layer_scalar"
	}
	n.done()
}

func convertLayer(c *family.Config, s *section, z *sizes) {
	l := &c.Layer
	l.Heads, l.Channels = z.heads, z.channels
	s.same("head", z.heads, "heads")
	s.same("channel", z.channels, "channels")
	s.same("d_input", z.dModel, "features")
	s.same("d_output", z.dModel, "features")
	l.Bidirectional = s.bool("bidirectional", false)
	l.ConjSym = s.bool("conj_sym", true)
	l.Discretization = s.choice("discrete_method", "zoh", essm.Methods)
	l.LambdaReal = s.choice("version_A_neg", "clip", essm.RealConstraints)
	l.MaxRealLambda = s.float("max_real_Lambda", 1e-4)
	l.LambdaImag = "same"
	if name, ok := s.text("version_A_imag"); ok && name != "" && name != "identity" {
		l.LambdaImag = s.choice("version_A_imag", "same", essm.ImagConstraints)
	}
	l.Activation = s.activation("activation", "gelu")
	l.PostActivation = s.activation("acttivation_post", "")
	if n, ok := s.int("max_kernel_length"); ok {
		if n < 0 {
			s.wrong("max_kernel_length", "a number of steps", int64(n))
		}
		l.MaxKernelLength = n // 0 stands for all in both
	}
	s.states(l, z)
	l.Dt = map[bool]string{true: "shared", false: "per_state"}[z.sharedDt]
	if v, ok := s.set("d_dt_is_n"); ok {
		perState, isBool := v.(bool)
		if !isBool {
			s.wrong("d_dt_is_n", "true or false", v)
		}
		if perState == z.sharedDt && z.states > 1 {
			s.log.fail("%s: is %v, but log_dt has the shape of %s steps", s.key("d_dt_is_n"), perState, l.Dt)
		}
		if !perState {
			l.Dt = "shared"
		}
	}
	l.D = z.d
	if v, ok := s.set("D_value"); ok {
		want := "full"
		switch v {
		case int64(0), 0.0, false:
			want = "none"
		case int64(1), 1.0, true:
			want = "diagonal"
		}
		if want != z.d {
			s.log.fail("%s: is %s, so D should be %s, but the tensors have it %s", s.key("D_value"), show(v), want, z.d)
		}
	}
	if name, ok := s.text("_name_"); ok && !strings.HasPrefix(name, "ldnn") && !strings.Contains(name, "ssm") {
		s.wrong("_name_", "a layer of the released code (ldnn_…)", name)
	}
	for _, key := range []string{"postact", "hyper_act"} {
		if v, ok := s.set(key); ok {
			s.wrong(key, "null", v)
		}
	}
	s.ignore("dropout", "dt_min", "dt_max", "trainable", "lr", "wd", "Lambda_init", "B_init", "C_init", "D_init",
		"t_init", "l_max", "verbose", "complex_ssm", "version_B_imag", "version_C_imag", "transposed")
	s.done()
}

// states reads d_s, the number of states of all heads. With conj_sym the tensors hold half of them, unless keep_d_state
// is set.
func (s *section) states(l *family.Layer, z *sizes) {
	keep, given := s.set("keep_d_state")
	if _, isBool := keep.(bool); given && !isBool {
		s.wrong("keep_d_state", "true or false", keep)
	}
	l.DState = z.states * z.heads
	if l.ConjSym && keep == false && !z.full {
		l.DState *= 2
	}
	n, ok := s.int("d_s")
	if !ok {
		return
	}
	per := n / z.heads
	if per != z.states && !(l.ConjSym && per/2 == z.states) {
		s.log.fail("%s: is %d, %d for each of %d heads, but the tensors have %d", s.key("d_s"), n, per, z.heads,
			z.states)
	}
	l.DState = n
}

// activation reads an activation with a name of the released code. An empty string is none.
func (s *section) activation(key, def string) string {
	name, ok := s.text(key)
	switch {
	case !ok && def == "":
		return def
	case !ok:
		return defaulted(s, key, def)
	case name == "" || name == "id" || name == "identity" || name == "linear":
		return ""
	case !slices.Contains(family.Activations, name):
		s.wrong(key, "one of "+strings.Join(family.Activations, ", ")+", or null", name)
	}
	return name
}

// convertEncoder derives the encoder from its tensors. The configuration may name it.
func convertEncoder(c *family.Config, top *section, tensors map[string]*tensor.Tensor) {
	w, bias := tensors["encoder.weight"], tensors["encoder.bias"]
	names := []string{"id", "identity", "none"}
	c.Encoder.Type = "identity"
	switch {
	case w == nil:
	case w.Rank() != 2:
		top.log.fail("tensor encoder.weight: expected a matrix, found %s", w)
	case bias != nil:
		c.Encoder.Type, c.Encoder.DInput, names = "linear", w.Dim(1), []string{"linear"}
	default:
		c.Encoder.Type, c.Encoder.VocabSize, names = "embedding", w.Dim(0), []string{"embedding"}
	}
	e := top.sub("encoder")
	if e == nil {
		return
	}
	if name, _ := e.text("_name_"); !slices.Contains(names, name) {
		top.log.fail("%s: is %.60q, but the tensors are those of %s", e.path, name, c.Encoder.Type)
	}
	e.same("d_model", c.DModel, "features")
	if c.Encoder.Type == "linear" {
		e.same("d_input", c.Encoder.DInput, "inputs")
	}
	if c.Encoder.Type == "embedding" {
		e.same("n_tokens", c.Encoder.VocabSize, "tokens")
	}
	e.done()
}

// convertDecoder derives the decoder's type and sizes from its tensors, and its mode from the configuration.
func convertDecoder(c *family.Config, top *section, tensors map[string]*tensor.Tensor) {
	d := top.sub("decoder")
	if d == nil {
		d = &section{path: top.key("decoder"), log: top.log}
	}
	const classifier = "decoder.retrieval.classifier."
	out := tensors["decoder.output_transform.weight"]
	c.Decoder.Type = "sequence"
	if tensors[classifier+"0.weight"] != nil {
		c.Decoder.Type = "retrieval"
		c.Decoder.NLI = tensors[classifier+"4.weight"] == nil
		if out = tensors[classifier+"4.weight"]; c.Decoder.NLI {
			out = tensors[classifier+"2.weight"]
		}
	}
	if out == nil || out.Rank() != 2 {
		top.log.fail("the tensors have neither decoder.output_transform.weight nor a retrieval classifier")
		return
	}
	c.Decoder.DOutput = out.Dim(0)
	if name, ok := d.text("_name_"); ok && name != c.Decoder.Type {
		top.log.fail("%s: is %.60q, but the tensors are those of %s", d.key("_name_"), name, c.Decoder.Type)
	}
	c.Decoder.Mode = d.choice("mode", "last", family.Modes)
	c.Decoder.UseLengths = d.bool("use_lengths", false)
	d.same("d_output", c.Decoder.DOutput, "outputs")
	d.same("n_classes", c.Decoder.DOutput, "outputs")
	d.same("d_model", c.DModel, "features")
	d.only("l_output", 0, "another number of steps is not supported")
	if c.Decoder.Type == "retrieval" {
		if v, ok := d.set("nli"); ok && v != c.Decoder.NLI {
			top.log.fail("%s: is %s, but the tensors are those of nli %v", d.key("nli"), show(v), c.Decoder.NLI)
		}
		c.Decoder.Activation = d.choice("activation", "relu", []string{"gelu", "relu"})
	} else {
		d.ignore("nli", "activation")
	}
	d.done()
}
