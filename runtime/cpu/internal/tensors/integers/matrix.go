package integers

import (
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime/cpu/internal/record"
	"github.com/essmc/essmc/runtime/cpu/internal/tensors"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// quadMatrixKey identifies packed matrices of bytes for products of quads, which the programs of one model share.
type quadMatrixKey struct{ t *tensor.Tensor }

// quadPanels is the number of panels that are multiplied at once.
const quadPanels = 2

// signedRows computes signed numbers of the rows of a, in quads, and their sums.
type signedRows integerProduct

// signedItem is the number of rows of a work item.
const signedItem = 16

func (p *signedRows) Do(_ *record.Workspace, k int) {
	size := 4 * kernel.QuadsOf(p.k)
	from, to := k*signedItem, min((k+1)*signedItem, len(p.ofRows))
	for i := from; i < to; i++ {
		row := kernel.Bytes{Data: p.a.Data[i*p.k : (i+1)*p.k], Signed: p.a.Signed}
		kernel.SignedBytes(p.signed[i*size:(i+1)*size], row)
	}
	if p.b.Signed || p.zeroB != 0 {
		kernel.SumBytes(p.ofRows[from:to], p.signed[from*size:], size, size/4)
	}
}

// quadProduct computes a work item with products of four bytes at once. The numbers a' of a are signed, and smaller
// by d than a itself minus its zero point; the numbers b' of b are unsigned, and greater by c than b minus its zero
// point. Since
//
//	Σ a·b = Σ (a' + d)·(b' - c) = Σ a'·b' - c·Σ a' + d·Σ (b' - c),
//
// sums of rows and columns correct for this. All sums wrap around; the final one fits in 32 bits.
func (p *integerProduct) quadProduct(w *record.Workspace, product, from, left, rows, columns int) {
	quads := kernel.QuadsOf(p.k)
	size, first := 4*quads, p.at[0][product]/p.k+from
	block, ofRows := p.signed[first*size:], p.ofRows[first:first+rows]
	ofColumns := tensors.Int32s(w.Scratch[:p.blockA])
	panel, tile := tensors.Uint8s(w.Scratch[p.blockA:p.blockA+p.blockB]), tensors.Int32s(w.Scratch[p.blockA+p.blockB:])
	ldy, direct := p.columns, p.requantize == nil && columns%kernel.PanelWidth == 0
	if direct { // whole panels need no tile
		tile, ldy = p.sums[(product*p.m+from)*p.n+left:], p.n
	}
	b := kernel.Bytes{}
	if p.wQuads == nil {
		b = kernel.Bytes{Data: p.b.Data[p.at[1][product]:], Signed: p.b.Signed}
	}
	c, d := int32(p.b.Unsigned()+p.zeroB), int32(p.a.SignedLess()-p.zeroA)
	for j := 0; j < columns; j += quadPanels * kernel.PanelWidth {
		end := min(j+quadPanels*kernel.PanelWidth, columns)
		if p.wQuads != nil {
			panel = p.wQuads.Panel((left + j) / kernel.PanelWidth)
			copy(ofColumns[j:end], p.wQuads.Sum[left+j:])
		} else {
			for i := j; i < end; i += kernel.PanelWidth {
				part := panel[(i-j)*size : (i-j+kernel.PanelWidth)*size]
				p.gatherQuads(part, b, left+i, min(kernel.PanelWidth, end-i))
				sums := kernel.SumPanel(part, quads)
				copy(ofColumns[i:end], sums[:])
			}
		}
		kernel.PanelProductBytes(tile[j:], ldy, block, size, rows, quads,
			(end-j+kernel.PanelWidth-1)/kernel.PanelWidth, panel)
	}
	for i, sum := range ofColumns[:columns] {
		ofColumns[i] = d * (sum - c*int32(p.k))
	}
	if p.requantize != nil {
		kernel.AddInts(ofColumns[:columns], p.add[left:left+columns], 0)
	}
	for i := range rows {
		more := int32(0)
		if c != 0 {
			more = -c * ofRows[i]
		}
		sums := tile[i*ldy : i*ldy+columns]
		if p.requantize != nil {
			p.quantize(sums, product, from+i, left, ofColumns, more)
			continue
		}
		kernel.AddInts(sums, ofColumns[:columns], more)
		if p.scaled {
			p.scale32(sums, left)
		}
		if direct {
			continue
		}
		copy(p.sums[(product*p.m+from+i)*p.n+left:], sums)
	}
}

// gatherQuads packs n columns of b as unsigned numbers, with zeros after the last row.
func (p *integerProduct) gatherQuads(panel []byte, b kernel.Bytes, from, n int) {
	last := (p.k-1)*p.n + from
	if last+kernel.PanelWidth <= len(b.Data) { // data next to the columns is read and ignored
		kernel.PanelBytes(panel, b, p.offsets, from)
	} else {
		clear(panel)
		flip := byte(b.Unsigned())
		for i := range p.k {
			to := panel[i/4*4*kernel.PanelWidth+i%4:]
			for j := range n {
				to[4*j] = b.Data[i*p.n+from+j] ^ flip
			}
		}
	}
	for i := p.k; i%4 != 0; i++ {
		to := panel[i/4*4*kernel.PanelWidth+i%4:]
		for j := range kernel.PanelWidth {
			to[4*j] = 0
		}
	}
}
