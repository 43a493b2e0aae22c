package plan

import (
	"fmt"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/essmc/essmc/runtime/plan/internal/fb"
)

// build makes the FlatBuffer of the encoded graph.
func (e *encoder) build() ([]byte, error) {
	size := e.size()
	if size > maxMetadata/2 { // the builder doubles its buffer, and panics beyond the bound
		return nil, fmt.Errorf("needs %d bytes of metadata, at most %d are possible", size, maxMetadata/2)
	}
	b := flatbuffers.NewBuilder(int(size))
	texts := make([]flatbuffers.UOffsetT, len(e.strings))
	for i, s := range e.strings {
		texts[i] = b.CreateString(s)
	}
	updates := vector(b, e.updates, fb.PlanStartUpdatesVector, func(p pair) { fb.CreateUpdate(b, p.a, p.b) })
	parameters := vector(b, e.parameters, fb.PlanStartParametersVector, b.PrependUint32)
	graphs := vector(b, e.graphs, fb.PlanStartGraphsVector, func(g graphRec) {
		fb.CreateGraph(b, g.name, g.doc, g.inputsEnd, g.outputsEnd, g.nodesEnd, g.opsetsEnd, g.metaEnd, g.eventsEnd)
	})
	events := vector(b, e.events, fb.PlanStartEventsVector,
		func(v eventRec) { fb.CreateEvent(b, v.changes, v.pass, v.notesEnd) })
	notes := vector(b, e.notes, fb.PlanStartNotesVector, b.PrependUint32)
	meta := vector(b, e.meta, fb.PlanStartMetaVector, func(p pair) { fb.CreatePair(b, p.a, p.b) })
	opsets := vector(b, e.opsets, fb.PlanStartOpsetsVector, func(p pair) { fb.CreateOpset(b, p.a, p.b) })
	graphOut := vector(b, e.graphOut, fb.PlanStartGraphOutputsVector, b.PrependUint32)
	graphIn := vector(b, e.graphIn, fb.PlanStartGraphInputsVector, b.PrependUint32)
	nodes := vector(b, e.nodes, fb.PlanStartNodesVector, func(n nodeRec) {
		fb.CreateNode(b, n.op, n.name, n.scope, n.inputsEnd, n.outputsEnd, n.attrsEnd)
	})
	nodeOut := vector(b, e.nodeOut, fb.PlanStartNodeOutputsVector, b.PrependUint32)
	nodeIn := vector(b, e.nodeIn, fb.PlanStartNodeInputsVector, b.PrependUint32)
	attrs := vector(b, e.attrs, fb.PlanStartAttrsVector, func(a attrRec) { fb.CreateAttr(b, a.number, a.name, a.kind) })
	refs := vector(b, e.refs, fb.PlanStartRefsVector, b.PrependUint32)
	numbers := vector(b, e.numbers, fb.PlanStartNumbersVector, b.PrependInt64)
	constants := vector(b, e.constants, fb.PlanStartConstantsVector, func(p pair) { fb.CreateConstant(b, p.a, p.b) })
	values := vector(b, e.values, fb.PlanStartValuesVector, func(p pair) { fb.CreateValue(b, p.a, p.b) })
	ops := vector(b, e.ops, fb.PlanStartOpsVector, func(o opRec) { fb.CreateOp(b, o.domain, o.name, o.since) })
	tensors := vector(b, e.tensors, fb.PlanStartTensorsVector,
		func(t tensorRec) { fb.CreateTensor(b, t.storage, t.extentsEnd, t.dtype) })
	elements := vector(b, e.elements, fb.PlanStartElementsVector, b.PrependUint32)
	extents := vector(b, e.extents, fb.PlanStartExtentsVector, b.PrependInt64)
	blobs := vector(b, e.blobs, fb.PlanStartBlobsVector,
		func(x blob) { fb.CreateBlob(b, uint64(x.offset), uint64(len(x.data))) })
	types := vector(b, e.types, fb.PlanStartTypesVector, func(t typeRec) {
		fb.CreateType(b, t.elem, t.dimsEnd, t.kind)
	})
	dims := vector(b, e.dims, fb.PlanStartDimsVector, b.PrependUint32)
	strings := vector(b, texts, fb.PlanStartStringsVector, b.PrependUOffsetT)

	fb.PlanStart(b)
	fb.PlanAddStrings(b, strings)
	fb.PlanAddDims(b, dims)
	fb.PlanAddTypes(b, types)
	fb.PlanAddBlobs(b, blobs)
	fb.PlanAddExtents(b, extents)
	fb.PlanAddElements(b, elements)
	fb.PlanAddTensors(b, tensors)
	fb.PlanAddOps(b, ops)
	fb.PlanAddValues(b, values)
	fb.PlanAddConstants(b, constants)
	fb.PlanAddNumbers(b, numbers)
	fb.PlanAddRefs(b, refs)
	fb.PlanAddAttrs(b, attrs)
	fb.PlanAddNodeInputs(b, nodeIn)
	fb.PlanAddNodeOutputs(b, nodeOut)
	fb.PlanAddNodes(b, nodes)
	fb.PlanAddGraphInputs(b, graphIn)
	fb.PlanAddGraphOutputs(b, graphOut)
	fb.PlanAddOpsets(b, opsets)
	fb.PlanAddMeta(b, meta)
	fb.PlanAddNotes(b, notes)
	fb.PlanAddEvents(b, events)
	fb.PlanAddGraphs(b, graphs)
	fb.PlanAddParameters(b, parameters)
	fb.PlanAddUpdates(b, updates)
	b.FinishWithFileIdentifier(fb.PlanEnd(b), []byte(fileIdentifier))
	return b.FinishedBytes(), nil
}

// vector writes a vector of the root table, backwards. It returns 0, which omits the field, for an empty one.
func vector[T any](b *flatbuffers.Builder, list []T, start func(*flatbuffers.Builder, int) flatbuffers.UOffsetT,
	put func(T)) flatbuffers.UOffsetT {
	if len(list) == 0 {
		return 0
	}
	start(b, len(list))
	for i := len(list) - 1; i >= 0; i-- {
		put(list[i])
	}
	return b.EndVector(len(list))
}

// size bounds the size of the FlatBuffer from above.
func (e *encoder) size() int64 {
	n := int64(256 + 16*len(columns))
	for _, s := range e.strings {
		n += int64(len(s)) + 12
	}
	for i, l := range []int{len(e.strings), len(e.dims), len(e.types), len(e.blobs), len(e.extents), len(e.elements),
		len(e.tensors),
		len(e.ops), len(e.values), len(e.constants), len(e.numbers), len(e.refs), len(e.attrs), len(e.nodeIn),
		len(e.nodeOut),
		len(e.nodes), len(e.graphIn), len(e.graphOut), len(e.opsets), len(e.meta), len(e.notes), len(e.events),
		len(e.graphs), len(e.parameters), len(e.updates)} {
		n += int64(l) * int64(columns[i].size)
	}
	return n
}
