module github.com/essmc/essmc

go 1.26.0

require github.com/google/flatbuffers v25.12.19+incompatible

require (
	golang.org/x/tools v0.52.0 // indirect
	gonum.org/v1/gonum v0.17.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
