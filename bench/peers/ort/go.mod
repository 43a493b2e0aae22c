module github.com/essmc/essmc/bench/peers/ort

go 1.26.0

require (
	github.com/essmc/essmc v0.0.0
	github.com/yalue/onnxruntime_go v1.27.0
)

replace github.com/essmc/essmc => ../../..
