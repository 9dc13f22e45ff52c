"""Operations based on order: sorts, ranks, quantiles, sets, searches, histograms."""
