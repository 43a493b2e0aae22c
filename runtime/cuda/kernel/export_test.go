package kernel

// Tiles is the number of tiles of products.
var Tiles = len(tiles)

// Cut returns the launches of a product with a given tile and split parts of K.
func (p Product) Cut(tile, split int, scratch func(bytes int) Buffer) []Call {
	p = p.normal()
	return p.cut(tiles[tile], split, scratch)
}

// TileName names a tile.
func TileName(i int) string { f := productForm{blockTile: tiles[i]}; return f.name() }

// TileSize returns the rows and columns of a tile.
func TileSize(i int) (m, n int) { return tiles[i].m, tiles[i].n }

// SmallSlabs lets pairs of pieces take turns in scratch memory, until the function that it returns is called.
func SmallSlabs() func() {
	before := convSlab
	convSlab = 1
	return func() { convSlab = before }
}
