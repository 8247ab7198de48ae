// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// metrics returns the target's metrics, line by line.
func (t *target) metrics(ctx context.Context) ([]string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.process.Admin+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	return strings.Split(string(text), "\n"), nil
}

// gauge returns the value of a metric. name includes its labels.
func (t *target) gauge(ctx context.Context, name string) (float64, error) {
	lines, err := t.metrics(ctx)
	if err != nil {
		return 0, err
	}
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("metrics: no %s", name)
}
