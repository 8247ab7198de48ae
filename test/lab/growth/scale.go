// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
)

// scale is a logarithmic scale from values to coordinates.
type scale struct {
	low, high float64 // values
	from, to  float64 // their coordinates
}

// newScale returns a scale of values with a little room at both ends.
func newScale(low, high, from, to float64) scale {
	room := math.Pow(max(high/low, 2), 0.04)
	return scale{low / room, high * room, from, to}
}

func (s scale) at(v float64) float64 {
	return s.from + math.Log(v/s.low)/math.Log(s.high/s.low)*(s.to-s.from)
}

// ticks returns the values of a list that are on the scale.
func (s scale) ticks(of []float64) (on []float64) {
	for _, v := range of {
		if s.low <= v && v <= s.high {
			on = append(on, v)
		}
	}
	return on
}

// steps returns 1, 2 and 5 of each decade, only 1 on scales of many decades, and more on scales of
// one.
func (s scale) steps() []float64 {
	factors := []float64{1, 2, 5}
	switch span := s.high / s.low; {
	case span > 2000:
		factors = []float64{1}
	case span < 15:
		factors = []float64{1, 1.5, 2, 3, 5, 7}
	}
	var all []float64
	for e := math.Floor(math.Log10(s.low)); e <= math.Log10(s.high); e++ {
		for _, f := range factors {
			// Parsed from its digits: the product would print as 0.2 and a little.
			v, _ := strconv.ParseFloat(strconv.FormatFloat(f*math.Pow(10, e), 'g', 3, 64), 64)
			all = append(all, v)
		}
	}
	return s.ticks(all)
}

// sizes are the labelled values of an axis of bytes, in KB.
var sizes = []float64{1, 10, 100, 1 << 10, 10 << 10, 100 << 10}

// size formats KB, and values from 1,024 on as MB.
func size(kb float64) string {
	if kb >= 1<<10 {
		return plain(kb/(1<<10)) + " MB"
	}
	return plain(kb) + " KB"
}

// plain formats a number with commas between thousands.
func plain(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if v < 1000 || v != math.Trunc(v) {
		return text
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
