// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// csvColumns are the columns behind those of the keys.
var csvColumns = [...]struct {
	name  string
	value func(*Sum) string
}{
	{"turns", func(s *Sum) string { return count(s.Turns) }},
	{"failed", func(s *Sum) string { return count(s.Failed) }},
	{"interrupted", func(s *Sum) string { return count(s.Interrupted) }},
	{"refused", func(s *Sum) string { return count(s.Refused) }},
	{"unpriced", func(s *Sum) string { return count(s.Unpriced) }},
	{"uncached_tokens", func(s *Sum) string { return count(s.Billed.Uncached) }},
	{"write_5m_tokens", func(s *Sum) string { return count(s.Billed.Write5m) }},
	{"write_1h_tokens", func(s *Sum) string { return count(s.Billed.Write1h) }},
	{"read_tokens", func(s *Sum) string { return count(s.Billed.Read) }},
	{"output_tokens", func(s *Sum) string { return count(s.Billed.Output) }},
	{"usd", func(s *Sum) string { return amount(s.USD) }},
	{"client_usd", func(s *Sum) string { return amount(s.ClientUSD) }},
	{"cost", func(s *Sum) string { return amount(s.Cost) }},
	{"client_cost", func(s *Sum) string { return amount(s.ClientCost) }},
}

func count(n int64) string { return strconv.FormatInt(n, 10) }

func amount(v float64) string { return strconv.FormatFloat(v, 'f', 6, 64) }

// WriteCSV writes a line for each sum, below a line with the names of the columns: the keys with their values, turns,
// tokens, and costs in US dollars and in uncached input tokens, as in the records.
func WriteCSV(w io.Writer, keys []string, sums iter.Seq2[[]string, *Sum]) error {
	line := slices.Clone(keys)
	for i := range csvColumns {
		line = append(line, csvColumns[i].name)
	}
	out := csv.NewWriter(w)
	_ = out.Write(line) // Error returns its error
	for values, s := range sums {
		line = line[:0]
		for _, v := range values {
			line = append(line, cell(v))
		}
		for i := range csvColumns {
			line = append(line, csvColumns[i].value(s))
		}
		_ = out.Write(line)
	}
	if out.Flush(); out.Error() != nil {
		return fmt.Errorf("audit: %w", out.Error())
	}
	return nil
}

// WriteCSV is WriteCSV for the sums by one dimension.
func (b *Breakdown) WriteCSV(w io.Writer) error {
	return WriteCSV(w, []string{b.Key}, func(yield func([]string, *Sum) bool) {
		for _, s := range b.Sums {
			if name := cmp.Or(s.Name, None); !yield([]string{name}, s) {
				return
			}
		}
	})
}

// cell makes a client's name a text: printable, and no formula in a spreadsheet.
func cell(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, name)
	if strings.IndexAny(name, "=+-@") == 0 {
		return "'" + name
	}
	return name
}
