// Package hostile has no code. Its tests give the runtime models and files that were made to harm it, each in a
// process of its own, and measure memory and processor time. TestModels runs models that demand more than their size
// suggests (testdata/models.txtar), as text, ONNX file and plan. TestDamaged cuts off and changes all other kinds of
// files in many places. SECURITY.md states the promises.
//
// The tests may import anything in the project. A fault that they find gets a file in testdata, which stays there.
package hostile
