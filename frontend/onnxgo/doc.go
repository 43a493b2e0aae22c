// Package onnxgo lets programs written for github.com/owulveryck/onnx-go switch to this runtime by changing one
// line. A Graph is a backend for onnx.NewModel that takes and returns tensors of gorgonia.org/tensor.
//
//	backend := onnxgo.New(runtime.Options{Backend: cpu.New()})  // was: gorgonnx.NewGraph()
//	model := onnx.NewModel(backend)
//	err := model.UnmarshalBinary(b)
//	err = model.SetInput(0, input)
//	err = backend.Run()
//	output, err := model.GetOutputTensors()
//
// It imports onnx-go, gorgonia's tensors, and frontend/open, which runs the passes on the decoded model. No other
// package imports it. onnx-go's decoder has limits: it does not support subgraphs, functions, external data and many
// element types. It drops the model's opset, so Options choose the version of operators (see New). New programs
// should use package frontend/open instead.
//
// Decoding into a Graph computes nothing. Run compiles once for each set of input types and shapes. It reads the
// arguments of SetInput only while it runs, and outputs share no storage with inputs. An input that was never set is
// all zeros, in its declared shape, as the decoder makes it.
package onnxgo

// In a version that allows gorgonia/tensor to start under current versions of Go.
import _ "go4.org/unsafe/assume-no-moving-gc"
