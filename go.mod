module github.com/essmc/essmc

go 1.26
