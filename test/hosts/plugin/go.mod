module plugged

go 1.19
