package record

import "math"

// A tile has LargestTile steps. They are enough that each load of the weights into the cache serves much work, they are
// a multiple of the rows that products compute at once, and their values fit the second-level cache. Tiles are shorter,
// down to SmallestTile, if steps take long, since runs are cancelled between tiles, and if the sequence is short, so
// that threads can share its tiles. Rows that do not follow each other have tiles of their own (RowsTile).
const (
	LargestTile  = 96
	SmallestTile = 24
	TileFlops    = 32 << 20 // about 0.3 ms
	tilesWanted  = 16
)

// TileSize returns the number of steps of a tile. It depends only on shapes.
func TileSize(flopsPerRow float64, length int) int {
	t := LargestTile
	for t > SmallestTile && (float64(t)*flopsPerRow > TileFlops || t*tilesWanted > length) {
		t /= 2
	}
	return max(1, min(t, length))
}

// RowsTile returns the number of rows of a tile for a region with independent rows, chosen so that the threads
// finish as early as possible. Each tile reads all weights, which takes about the time of some more rows.
func RowsTile(rows, threads int) int {
	const weights = 3 // rows
	best, least := LargestTile, math.MaxInt
	for t := LargestTile; t >= SmallestTile; t -= SmallestTile {
		whole, rest := rows/t, rows%t
		most := whole / threads * (t + weights) // of the thread that ends last
		switch {
		case whole%threads > 0:
			most += t + weights
		case rest > 0:
			most += rest + weights
		}
		if most < least {
			best, least = t, most
		}
	}
	return max(1, min(best, rows))
}
