package cuda

import (
	"encoding/binary"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/device"
)

// gather copies the states of many streams in one launch, and copies them back in one, by a table of the streams'
// addresses.
type gather struct {
	*stream
	device.States
	tables [2][]byte // the pieces of the states before the step, and of those behind it
	pieces [2]int

	enter, leave driver.Launch
	undo         driver.Launch // restores the states before the step
	places       driver.Ptr    // the table of the streams' addresses
	list         []byte        // the same table in pinned host memory
}

// Gather prepares the tables of pieces.
func (x *stream) Gather(s device.States) device.Gather {
	g := &gather{stream: x, States: s}
	for i, list := range [2][]device.State{s.Before, s.Behind} {
		var at, sizes []int
		for _, s := range list {
			at, sizes = append(at, s.At), append(sizes, s.Bytes)
		}
		g.tables[i], g.pieces[i] = kernel.StatePieces(at, sizes)
	}
	return g
}

// Bytes returns the sizes of the tables: the pieces and the addresses on the card, the addresses on the host.
func (g *gather) Bytes() (card, host int) {
	return len(g.tables[0]) + len(g.tables[1]) + 8*g.Streams, 8 * g.Streams
}

// Place uploads the pieces, and creates the launches.
func (g *gather) Place(states, tables device.Ptr, host []byte) error {
	before := driver.Ptr(tables)
	behind := before + driver.Ptr(len(g.tables[0]))
	g.places, g.list = behind+driver.Ptr(len(g.tables[1])), host
	for i, at := range []driver.Ptr{before, behind} {
		if err := g.v.Upload(device.Ptr(at), g.tables[i]); err != nil {
			return err
		}
	}
	for _, l := range []struct {
		launch *driver.Launch
		leave  bool
		pieces int
		table  driver.Ptr
	}{
		{&g.enter, false, g.pieces[0], before},
		{&g.undo, true, g.pieces[0], before},
		{&g.leave, true, g.pieces[1], behind},
	} {
		const table, places, memory kernel.Buffer = 1, 2, 3
		c := kernel.StatesMove{Leave: l.leave, Streams: g.Streams, Pieces: l.pieces, Table: table, Places: places,
			Memory: memory}.Call()
		f, err := g.modules.function(c.Code)
		if err != nil {
			return err
		}
		at := map[kernel.Buffer]driver.Ptr{table: l.table, places: g.places, memory: driver.Ptr(states)}
		*l.launch = c.Launch(f, g.s, func(x kernel.Buffer) driver.Ptr { return at[x] })
	}
	return nil
}

// Enter launches the copy from the streams.
func (g *gather) Enter(of []device.Ptr) error {
	for i, at := range of {
		binary.LittleEndian.PutUint64(g.list[8*i:], uint64(at))
	}
	return g.v.do(func() error {
		if err := g.v.drv.CopyToDevice(g.places, g.list, g.s); err != nil {
			return err
		}
		return g.v.drv.Launch(g.enter)
	})
}

// Leave launches the copy to the streams.
func (g *gather) Leave(undo bool) error {
	l := g.leave
	if undo {
		l = g.undo
	}
	return g.v.do(func() error { return g.v.drv.Launch(l) })
}
