package crowd

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
)

var errProfile = errors.New("not what a profile looks like")

// fields calls f for each field of a protobuf message: with its number, the bytes of those that have some, and else the value.
func fields(b []byte, f func(number uint64, data []byte, value uint64) error) error {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return errProfile
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 || key&7 != 0 && key&7 != 2 { // pprof's profiles have no other kinds
			return errProfile
		}
		b = b[n:]
		var data []byte
		if key&7 == 2 {
			if v > uint64(len(b)) {
				return errProfile
			}
			data, b = b[:v], b[v:]
		}
		if err := f(key>>3, data, v); err != nil {
			return err
		}
	}
	return nil
}

// profileSamples is the sum of the first value of all samples of a pprof file: Profile.sample is 2, Sample.value is 2.
// The program has no other library to read it than the standard one.
func profileSamples(file []byte) (sum uint64, err error) {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return 0, err
	}
	err = fields(data, func(number uint64, sample []byte, _ uint64) error {
		if number != 2 {
			return nil
		}
		first := true
		return fields(sample, func(number uint64, packed []byte, value uint64) error {
			if number != 2 || !first {
				return nil
			}
			first = false
			if packed != nil {
				var n int
				if value, n = binary.Uvarint(packed); n <= 0 {
					return errProfile
				}
			}
			sum += value
			return nil
		})
	})
	return sum, err
}
