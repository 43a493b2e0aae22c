package record

// A tile has 96 steps: enough that weights pass through the cache once for much work, a whole number of the blocks of rows that
// products take, and its values still lie in the second-level cache. It has fewer where steps are expensive (a run is
// cancelled between tiles) and where a sequence is short (threads share its tiles), but not below smallestTile.
const (
	LargestTile  = 96
	SmallestTile = 24
	TileFlops    = 32 << 20 // about 0.3 ms
	tilesWanted  = 16
)

// TileSize chooses the steps of a tile from shapes alone.
func TileSize(flopsPerRow float64, length int) int {
	t := LargestTile
	for t > SmallestTile && (float64(t)*flopsPerRow > TileFlops || t*tilesWanted > length) {
		t /= 2
	}
	return max(1, min(t, length))
}
