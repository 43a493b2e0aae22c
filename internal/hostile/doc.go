// Package hostile has no code. Its tests give the runtime models and files that were made to harm it, each in a process
// of its own, and measure how much memory and processor time that takes: TestModels models that demand more than their
// size tells (testdata/models.txtar), as text, ONNX file and plan; TestDamaged all other forms of files, cut off and
// changed in many places. SECURITY.md states the promises.
//
// The tests import anything of the project. A fault that they find gets a file in testdata, which stays.
package hostile
