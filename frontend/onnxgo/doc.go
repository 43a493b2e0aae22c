// Package onnxgo lets programs written for github.com/owulveryck/onnx-go run their models on this runtime: a Graph is a
// backend for onnx.NewModel, with tensors of gorgonia.org/tensor in and out, so its users change one line.
//
//	backend := onnxgo.New(runtime.Options{Backend: cpu.New()})  // was: gorgonnx.NewGraph()
//	model := onnx.NewModel(backend)
//	err := model.UnmarshalBinary(b)
//	err = model.SetInput(0, input)
//	err = backend.Run()
//	output, err := model.GetOutputTensors()
//
// It imports onnx-go, gorgonia's tensors, and frontend/open, which runs the passes on what onnx-go decoded, as on any other
// model; nothing else in the project imports it. onnx-go's decoder sets the limits: it knows no subgraphs, functions, external data and few element types, and
// it drops the model's opset, so the version of an operator is chosen by Options (see New). Programs that can, open models
// with package frontend/open instead.
//
// What always holds: decoding into a Graph computes nothing; Run compiles once for each set of input types and shapes; what
// SetInput was given is read during Run only, and outputs share no storage with inputs. An input that was never set is what the
// decoder makes of it: zeros of its declared shape.
package onnxgo

import _ "go4.org/unsafe/assume-no-moving-gc" // of a version that lets gorgonia/tensor start under today's Go
