// Copyright 2026 The llm_cache Authors
// SPDX-License-Identifier: Apache-2.0

// Package metric makes the collectors caddy_llm_cache_*. Each package declares its own. They live
// as long as the process or its instances, so that a reload does not reset them.
package metric

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llm-cache/caddy-llm-cache/internal/shared"
)

const (
	namespace = "caddy"
	subsystem = "llm_cache"
)

// declared are the collectors of the process, each makes those of an instance. Both are final after initialization.
var (
	declared []prometheus.Collector
	each     []func(*shared.Instance) []prometheus.Collector
)

// Each declares collectors that every instance has of its own.
func Each(of func(*shared.Instance) []prometheus.Collector) { each = append(each, of) }

func declare[C prometheus.Collector](c C) C {
	declared = append(declared, c)
	return c
}

// Counter declares a counter.
func Counter(name, help string) prometheus.Counter {
	return declare(prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name,
		Help: help,
	}))
}

// CounterVec declares counters with labels.
func CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return declare(NewCounterVec(name, help, labels...))
}

// NewCounterVec returns counters with labels for [Each].
func NewCounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name,
		Help: help,
	}, labels)
}

// CounterOf declares counters with one label and known values. They exist from the start at zero.
func CounterOf(name, help, label string, values ...string) *prometheus.CounterVec {
	// Otherwise rates would miss the first event of a rare kind.
	return Known(CounterVec(name, help, label), values)
}

// Known creates the counters of all combinations of label values.
func Known(c *prometheus.CounterVec, values ...[]string) *prometheus.CounterVec {
	rows := [][]string{nil}
	for _, of := range values {
		var longer [][]string
		for _, row := range rows {
			for _, v := range of {
				longer = append(longer, append(slices.Clone(row), v))
			}
		}
		rows = longer
	}
	for _, row := range rows {
		c.WithLabelValues(row...)
	}
	return c
}

// CounterFunc declares a counter with a value from a function, for each instance.
func CounterFunc(name, help string, value func(*shared.Instance) float64) {
	Each(func(i *shared.Instance) []prometheus.Collector {
		return []prometheus.Collector{prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace,
			Subsystem: subsystem, Name: name, Help: help,
		},
			func() float64 { return value(i) })}
	})
}

// Gauge declares a gauge.
func Gauge(name, help string) prometheus.Gauge {
	return declare(prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name,
		Help: help,
	}))
}

// GaugeFunc declares a gauge with a value from a function, for each instance.
func GaugeFunc(name, help string, value func(*shared.Instance) float64) {
	gaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Subsystem: subsystem, Name: name, Help: help}, value)
}

// GaugeFuncOf declares one of several gauges of a name, with a label and its value, see [GaugeFunc].
func GaugeFuncOf(name, help, label, is string, value func(*shared.Instance) float64) {
	gaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name, Help: help, ConstLabels: prometheus.Labels{label: is},
	}, value)
}

// GaugesFunc declares gauges with labels, whose values are computed when they are read, for each
// instance. add must be called once at most for a combination of label values.
func GaugesFunc(
	name, help string, labels []string, collect func(i *shared.Instance, add func(value float64, labels ...string)),
) {
	Each(func(i *shared.Instance) []prometheus.Collector {
		return []prometheus.Collector{&gauges{
			prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, name), help, labels, nil), i, collect,
		}}
	})
}

type gauges struct {
	desc     *prometheus.Desc
	instance *shared.Instance
	collect  func(i *shared.Instance, add func(value float64, labels ...string))
}

// Describe implements [prometheus.Collector].
func (g *gauges) Describe(to chan<- *prometheus.Desc) { to <- g.desc }

// Collect implements [prometheus.Collector].
func (g *gauges) Collect(to chan<- prometheus.Metric) {
	g.collect(g.instance, func(value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, value, labels...)
	})
}

func gaugeFunc(o prometheus.GaugeOpts, value func(*shared.Instance) float64) {
	Each(func(i *shared.Instance) []prometheus.Collector {
		return []prometheus.Collector{prometheus.NewGaugeFunc(o, func() float64 { return value(i) })}
	})
}

// Histogram declares a histogram with the given upper bounds.
func Histogram(name, help string, bounds ...float64) prometheus.Histogram {
	return declare(prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Subsystem: subsystem, Name: name,
		Help: help, Buckets: bounds,
	}))
}

// Register adds the collectors to a configuration's registry. Several modules of one configuration
// may call it.
func Register(i *shared.Instance, reg *prometheus.Registry) error {
	all := slices.Clone(declared)
	for _, of := range each {
		all = append(all, of(i)...)
	}
	for _, c := range all {
		err := reg.Register(c)
		// Another module of the configuration may have registered the collectors.
		if _, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); err != nil && !ok {
			return fmt.Errorf("registering metrics: %w", err)
		}
	}
	return nil
}
