// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package transcript

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"

	"github.com/tidwall/gjson"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/wire/rawjson"
)

// maxRecord bounds one line of a transcript. Longer lines are skipped.
const maxRecord = 64 << 20

func lineByLine(read func(each records) []*Session) func(Source) ([]*Session, error) {
	return func(s Source) ([]*Session, error) {
		f, err := os.Open(s.Path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		var failed error
		sessions := read(func(each func(line gjson.Result) (known bool)) int {
			var unknown int
			unknown, failed = lines(f, each)
			return unknown
		})
		return sessions, failed
	}
}

// records calls each for the lines of a transcript, and returns the number of unusable lines.
type records func(each func(line gjson.Result) (known bool)) (unknown int)

func lines(from io.Reader, each func(gjson.Result) bool) (unknown int, err error) {
	r := bufio.NewReaderSize(from, 1<<20)
	var long []byte
	for {
		line, err := r.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxRecord {
				long, err = long[:0], skipLine(r)
				unknown++
			}
			if err == nil || errors.Is(err, bufio.ErrBufferFull) {
				continue
			}
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = long[:0]
		}
		// The last line may be incomplete.
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if !rawjson.ValidBytes(line) || !each(gjson.Parse(string(line))) {
				unknown++
			}
		}
		if errors.Is(err, io.EOF) {
			return unknown, nil
		}
		if err != nil {
			return unknown, err
		}
	}
}

func skipLine(r *bufio.Reader) error {
	for {
		if _, err := r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
