package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
)

// headline is one line of the tables on the front pages, README.md and the head of RESULTS.md.
type headline struct {
	model, input string
	// file is the part of an ONNX file's path that finds it: below the folder of architectures, or of real models.
	file string
	// family is the name of a family, for a model that is compared with torch.
	family string
}

// headlines are the figures that matter to a visitor: four models in common use, and three state-space models.
var headlines = []headline{
	{model: "BERT, 4 layers", input: "128 tokens", file: "transformer/bert.float32"},
	{model: "ResNet-50", input: "224 × 224 pixels", file: "cnn/resnet50.float32"},
	{model: "Silero VAD, a streaming voice model", input: "32 ms of audio", file: "silero_vad_16k_op15.onnx"},
	{model: "random forest, 100 trees", input: "1 row", file: "trees/random_forest.1"},
	{model: "eSSM", input: "4096 steps", family: "essm"},
	{model: "S4", input: "4096 steps", family: "s4"},
	{model: "Mamba", input: "4096 tokens", family: "mamba"},
}

// headlineHeader is the header of the only table of the suite.
var headlineHeader = []string{"model", "input", "compared with", "its time", "essmc", "its time : essmc"}

// headlinePoint is the size of the families there, as in their own table.
var headlinePoint = familyPoint{width: 128, batch: 1, length: 4096}

// runHeadline measures what the front pages show: batch 1, one thread. It takes a few minutes.
func runHeadline(ctx context.Context, e *env, r *result) error {
	t := table{Header: headlineHeader, Note: fmt.Sprintf("The state-space models are untrained, of %d layers of width %d. "+
		"PyTorch: the fastest form of the layer, and the fastest of the versions above.", familyLayers, headlinePoint.width)}
	if e.peers.ort != nil {
		if err := e.exportArchitectures(ctx, headlineFiles()); err != nil {
			r.Notes = append(r.Notes, "Files are those of an earlier run: "+err.Error())
		}
	}
	for _, h := range headlines {
		if e.quick && h.family == "" {
			continue
		}
		e.progress("  %s", h.model)
		row, err := e.headline(ctx, h)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: %v", h.model, err))
			continue
		}
		t.add(row...)
	}
	r.Tables = append(r.Tables, t)
	return nil
}

// headlineFiles is an expression for the exported architectures among the headlines.
func headlineFiles() string {
	var names []string
	for _, h := range headlines {
		if h.file != "" && !strings.HasSuffix(h.file, ".onnx") {
			names = append(names, strings.ReplaceAll(filepath.Base(h.file), ".", `\.`))
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}

// headline measures a line.
func (e *env) headline(ctx context.Context, h headline) ([]string, error) {
	if h.family != "" {
		return e.headlineFamily(ctx, h)
	}
	if e.peers.ort == nil {
		return nil, errAbsent
	}
	m, err := e.headlineModel(h)
	if err != nil {
		return nil, err
	}
	s, err := e.onOneThread(ctx, m, 12*time.Second)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(s.err("essmc"), s.err("ONNX Runtime")); err != nil {
		return nil, err
	}
	return []string{h.model, h.input, "ONNX Runtime", seconds(s.of("ONNX Runtime")), seconds(s.of("essmc")),
		s.ratio("ONNX Runtime", "essmc").String()}, nil
}

// headlineFamily measures a family against torch.
func (e *env) headlineFamily(ctx context.Context, h headline) ([]string, error) {
	if len(e.peers.families) == 0 {
		return nil, errAbsent
	}
	all, err := registered()
	if err != nil {
		return nil, err
	}
	p := headlinePoint
	if e.quick {
		p = familyPoint{width: 32, batch: 1, length: 128}
	}
	for _, f := range all {
		if f.name != h.family {
			continue
		}
		x, err := e.familyAt(ctx, f, p, false)
		if err != nil {
			return nil, err
		}
		return []string{h.model, h.input, "PyTorch", seconds(x.torch), seconds(x.ours), x.gain.String()}, nil
	}
	return nil, fmt.Errorf("there is no family %s", h.family)
}

// headlineModel finds the file of a line.
func (e *env) headlineModel(h headline) (*importedModel, error) {
	if !strings.HasSuffix(h.file, ".onnx") {
		dir := filepath.Join(e.architectureDir(), filepath.FromSlash(h.file))
		m := &importedModel{file: filepath.Join(dir, "model.onnx")}
		return m, m.readInputs(dir)
	}
	_, files := e.realModels()
	for _, file := range files {
		if strings.HasSuffix(filepath.ToSlash(file), "/"+h.file) {
			return e.inputsOf(file, filepath.Join(e.work, "inputs", "headline"))
		}
	}
	return nil, errors.New("the model is absent: `go run ./bench -get` fetches it")
}
