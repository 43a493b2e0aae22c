package record

// A tile has LargestTile steps. They are enough that each load of the weights into the cache serves much work, they are
// a multiple of the rows that products compute at once, and their values fit the second-level cache. Tiles are shorter,
// down to SmallestTile, if steps take long, since runs are cancelled between tiles, and if the sequence is short, so
// that threads can share its tiles.
const (
	LargestTile  = 96
	SmallestTile = 24
	TileFlops    = 32 << 20 // about 0.3 ms
	tilesWanted  = 16
)

// TileSize returns the number of steps of a tile. It depends on shapes alone.
func TileSize(flopsPerRow float64, length int) int {
	t := LargestTile
	for t > SmallestTile && (float64(t)*flopsPerRow > TileFlops || t*tilesWanted > length) {
		t /= 2
	}
	return max(1, min(t, length))
}
