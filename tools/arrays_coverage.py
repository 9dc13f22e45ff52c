"""What there is of NumPy and of the array API standard, found by calling it.

    python -m tools.arrays_coverage                                  # the page
    python -m tools.arrays_coverage --write docs/arrays-coverage.md

Every public function of NumPy is called on arrays that are really dealt to four processes, its words are counted,
and what it gives is compared with NumPy's values, shape and dtype.
It is called by NumPy's own name; where that has no distributed form, by the same name of `bsp.arrays`.
A function without a recipe below is called on the first operands that NumPy takes.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from unittest import mock

import numpy as np

import bsp
import bsp.arrays as ba
from bsp.arrays.expressions.graph import LEAF
from bsp.arrays.linalg import ways as ways_of_linalg
from bsp.cost.whole_file import write_text

NPROCS = 4
WHOLE = 0.7  # share of the words of operands or result: with p = 4 a gather brings 3/4, a square product 1/2
STATUSES = ("distributed", "gathered", "refused", "missing", "wrong")
HEAD = """# What of NumPy is distributed

Made by `python -m tools.arrays_coverage --write docs/arrays-coverage.md` with NumPy {version}: every cell was found by
calling the function on arrays dealt to {nprocs} processes and comparing values, shape and dtype with NumPy's.

- **distributed**: in no superstep a process receives as much as the whole. *lazy*: an expression, planned with what
  uses it; *made*: every process makes its own blocks, without words; *collective*: it has supersteps of its own;
  *local*: an answer that needs no values.  `linalg` is called as for matrices of any size: those of few flops are
  brought to every element.
- **gathered**: some process receives the whole of the operands (or of the result, if that is more) at once, or
  bit by bit as NumPy's array; h says how much, in all supersteps ({share} is all that a process lacks).
- **refused**: an error that says why.
- **missing**: no distributed form; `x.compute()` and NumPy.
- **wrong**: anything else.

"""

# ------------------------------------------------------------------------------- operands

LEGEND = (
    "`A`, `A2`: matrices of 190 × 140 floats; `W`: as `A`, to be changed; `N`: `A` with some NaN; `U`: of 0.1 to 0.9; "
    "`C`: complex; `J`, `J2`: integers; `M`: booleans; `S`: 150 × 150, symmetric, positive definite; `T`: 2000 × 12; "
    "`v`, `u`, `w`: 20,011 floats (`w` to be changed); `k`: `v` sorted; `c`: 150; `I`, `I2`: 20,011 integers from 1 to "
    "8; `o`: an order of 20,011; `B`: booleans; `b`: bytes; `L`: 1000 × 240, of 0.1 to 0.9; `dates`: 20,011 days; "
    "`path`: an empty folder."
)


# sizes in the expressions of the page, and in those of arrays whose blocks on three processes are over 32 KiB each,
# of booleans and bytes too
LARGE = {"190": "380", "140": "280", "20_011": "100_003", "20_000": "100_000", "40_000": "200_000", "2000": "40_000"}


def enlarged(expression: str) -> str:
    """Rewrite an expression of the page for the large operands."""
    return re.sub(r"\b(" + "|".join(LARGE) + r")\b", lambda found: LARGE[found[0]], expression)


@cache
def operands(large: bool = False) -> dict[str, np.ndarray]:
    """Return the operands by name, the same on every call; the large ones exceed REPLICATED_SIZE and so are dealt."""
    rng = np.random.default_rng(1)
    shape, size = ((380, 280), 100_003) if large else ((190, 140), 20_011)
    matrix, square = rng.normal(size=shape), rng.normal(size=(150, 150))
    v = rng.normal(size=size)
    return {
        "A": matrix, "A2": rng.normal(size=shape), "W": matrix.copy(), "N": np.where(matrix > 1.2, np.nan, matrix),
        "U": rng.uniform(0.1, 0.9, shape), "C": matrix + 1j * rng.normal(size=shape),
        "J": rng.integers(-9, 9, shape), "J2": rng.integers(1, 9, shape), "M": matrix > 0.3,
        "S": square @ square.T + 150 * np.eye(150), "T": rng.normal(size=(2000, 12)), "c": rng.normal(size=150),
        "v": v, "u": rng.normal(size=size), "w": v.copy(), "k": np.sort(v), "I": rng.integers(1, 9, size),
        "I2": rng.integers(1, 9, size), "o": rng.permutation(size), "B": v > 0.3,
        "b": rng.integers(0, 256, size, dtype=np.uint8), "L": rng.uniform(0.1, 0.9, (1000, 240)),
        "dates": np.datetime64("2026-01-01") + rng.integers(-9999, 9999, size).astype("m8[D]"),
    }  # fmt: skip


# ------------------------------------------------------------------------------- recipes

GENERIC = ("U", "A", "J", "A, A2", "J, J2", "v", "v, u", "I", "M", "M, M", "S")

# A name, and the arguments; or an expression in which f is the function.
RECIPES = """
acosh                   1 + U
all                     A > -2, axis=0
any                     A > 2, axis=1
append                  A, A2, axis=0
apply_along_axis        np.sum, 0, A
apply_over_axes         np.sum, A, [0]
arange                  3, 40_000, 2
arccosh                 1 + U
argpartition            np.sort(v[f(v, 40)[:40]])
argsort                 v, kind='stable'
array                   A
array_equal             A, A2
array_equiv             A, A2
array_split             A, 4, axis=0
asarray                 A
asanyarray              A
asarray_chkfinite       A
ascontiguousarray       A
asmatrix                A
astype                  A, np.float32
atleast_1d              v
atleast_2d              v
atleast_3d              A
average                 A, axis=0
bartlett                51
bincount                I, minlength=12
blackman                51
block                   [[A, A2], [A2, A]]
bmat                    [[A, A2]]
bitwise_count           J
broadcast_arrays        A, A[:1]
broadcast_to            v, (3, 20_011)
can_cast                np.float32, np.float64
choose                  I % 3, [v, u, 2 * v]
clip                    A, -1.0, 1.0
column_stack            (v, u)
common_type             A, J
compress                v > 0, v
concat                  (A, A2), axis=0
concatenate             (A, A2), axis=1
conj                    C
conjugate               C
convolve                v, u[:9]
copyto                  (f(W, A2), W)
corrcoef                A
correlate               v, u[:9]
cov                     A
cross                   A[:, :3], A2[:, :3]
cumulative_prod         v
cumulative_sum          v
delete                  v, [3, 77]
diag                    A
diag_indices            150
diag_indices_from       S
diagflat                c
digitize                v, np.array([-1.0, 0.0, 1.0])
divmod                  J, J2
dot                     A, A2.T
dsplit                  np.reshape(A, (190, 20, -1)), [2, 3]
ediff1d                 v
einsum                  'ij,kj->ik', A, A2
einsum_path             'ij,kj->ik', A, A2
empty                   (190, 140)
empty_like              A
expand_dims             A, axis=1
extract                 v > 0, v
eye                     150
fill_diagonal           (f(W, 5.0), W)
flip                    A, axis=0
from_dlpack             A
fromfunction            lambda i, j: i * 10 + j, (190, 140)
full                    (190, 140), 2.5
full_like               A, 2.5
geomspace               1.0, 1000.0, 20_000
hamming                 51
hanning                 51
heaviside               A, 0.5
histogram               v, bins=20
histogram2d             v, u, bins=5
histogram_bin_edges     v, bins=20
histogramdd             np.stack([v, u], axis=1), bins=5
hsplit                  A, [10, 20]
hstack                  (A, A2)
identity                150
indices                 (190, 140)
inner                   A, A2
insert                  v, 3, 1.5
interp                  v, np.linspace(-3, 3, 20), np.linspace(0, 1, 20)
intersect1d             I, I2 + 3
is_busday               '2026-01-01'
isclose                 A, A + 1e-9
isin                    I, I2[:3]
isnat                   dates
ix_                     I, I2
kaiser                  51, 14.0
kron                    A, c[:2]
ldexp                   A, J2
lexsort                 (v, I)
linspace                0.0, 1.0, 20_000
load                    [np.save(path + '/x.npy', np.arange(20_000.0)), f(path + '/x.npy')][1]
logspace                0.0, 3.0, 20_000
lstsq                   T, T[:, 0] + 1, rcond=None
mask_indices            150, np.triu
matmul                  A, A2.T
may_share_memory        A, A2
matvec                  A, A2[0]
meshgrid                v, c[:3]
moveaxis                A, 0, 1
multi_dot               [A, A2.T, A]
nan_to_num              N
nanargmax               N, axis=0
nanargmin               N, axis=0
nancumprod              N, axis=0
nancumsum               N, axis=0
nanmax                  N, axis=0
nanmean                 N, axis=0
nanmedian               N, axis=0
nanmin                  N, axis=0
nanpercentile           N, [10, 50], axis=0
nanprod                 N, axis=0
nanquantile             N, [0.1, 0.5], axis=0
nanstd                  N, axis=0
nansum                  N, axis=0
nanvar                  N, axis=0
nonzero                 M
ones                    (190, 140)
outer                   v[:160], u[:150]
pad                     A, 2
partition               f(v, 40)[40]
percentile              v, [1, 50, 99]
permute_dims            A, (1, 0)
piecewise               v, [v < 0, v >= 0], [-1, 1]
place                   (f(w, w > 0, [1.0, 2.0]), w)
poly                    c[:5]
polyadd                 c, c
polydiv                 c, c[:3]
polyfit                 v, u, 2
polyval                 c[:4], v
pow                     U, 2
power                   U, 2
put                     (f(w, np.array([3, 5]), 1.5), w)
put_along_axis          (f(W, np.zeros((1, 140), int), 9.0, axis=0), W)
putmask                 (f(w, w > 0, 1.5), w)
quantile                v, [0.01, 0.5, 0.99]
ravel_multi_index       (I, I2), (9, 9)
repeat                  v, 3
require                 A
reshape                 A, (140, 190)
resize                  A, (170, 170)
result_type             A, J
roll                    A, 3, axis=0
rollaxis                A, 1
roots                   np.array([1.0, -3.0, 2.0]) + 0 * c[:3]
rot90                   A
row_stack               (A, A2)
save                    [f(path + '/y.npy', A), np.load(path + '/y.npy')][1]
savetxt                 [f(path + '/y.txt', A), np.loadtxt(path + '/y.txt')][1]
loadtxt                 [np.savetxt(path + '/z.txt', np.eye(4)), f(path + '/z.txt')][1]
savez                   [f(path + '/y.npz', A=A), np.load(path + '/y.npz')['A']][1]
savez_compressed        [f(path + '/yc.npz', A=A), np.load(path + '/yc.npz')['A']][1]
searchsorted            k, u
shares_memory           A, A2
select                  [v < 0, v > 1], [v, u], 5.0
setdiff1d               I, I2[:5]
setxor1d                I, I2 + 3
solve                   S, c
split                   A, 2, axis=0
squeeze                 A[:, :1], axis=1
stack                   (A, A2), axis=1
swapaxes                A, 0, 1
take                    A, I, axis=0
take_along_axis         A, np.argsort(A, axis=0), axis=0
tensordot               A, A2, axes=([0], [0])
tensorinv               np.reshape(S, (10, 15, 150))
tensorsolve             np.reshape(S, (10, 15, 150)), np.reshape(c, (10, 15))
tile                    v, 3
trapezoid               v
tri                     150
tril_indices            150
tril_indices_from       S
trim_zeros              np.where(I > 4, I, 0)
triu_indices            150
triu_indices_from       S
union1d                 I, I2 + 3
unpackbits              b
packbits                B
unravel_index           I, (9, 9)
unwrap                  v
vander                  c
vdot                    v, u
vecdot                  A, A2
vecmat                  A[:, 0], A2
vsplit                  A, [10, 20]
vstack                  (A, A2)
where                   A > 0, A, -1.0
zeros                   (190, 140)
finfo                   f(np.float32).eps
iinfo                   f(np.int16).max
isdtype                 np.float32, 'real floating'
__array_namespace_info__    sorted(f().devices())
unstack                 A[:3]
cholesky                S
cond                    T
det                     S
eig                     np.sort(f(S)[0])
eigh                    S
eigvals                 np.sort(f(S))
eigvalsh                S
inv                     S
matrix_norm             A
matrix_power            S / 300, 3
matrix_rank             T
matrix_transpose        A
norm                    A
pinv                    T
qr                      T
slogdet                 S
svd                     T, full_matrices=False
svdvals                 T
vector_norm             A
diagonal                A
trace                   S
fft                     v + 1j * u
fftfreq                 20_000, d=0.5
fftn                    C
fftshift                A
hfft                    v + 1j * u
ifft                    v + 1j * u
ifftn                   C
ifftshift               A
ihfft                   v
irfft                   v + 1j * u
irfftn                  C
rfft                    v
rfftfreq                40_000, d=0.5
rfftn                   A
fft2                    A
ifft2                   A
rfft2                   A
irfft2                  C
"""
# what is not compared by value: factors are unique up to signs, new memory holds anything
HOW = {"qr": "signs", "svd": "signs", "eigh": "signs", "empty": "kind", "empty_like": "kind"}

GENERATOR = """
beta                        2.0, 3.0, 2000
binomial                    9, 0.3, 2000
bytes                       len(f(12))
chisquare                   3.0, 2000
choice                      50, 2000
dirichlet                   [1.0, 2.0, 3.0], 2000
exponential                 2.0, 2000
f                           3.0, 4.0, 2000
gamma                       2.0, 1.5, 2000
geometric                   0.3, 2000
gumbel                      0.0, 1.0, 2000
hypergeometric              20, 30, 10, 2000
integers                    0, 50, 2000
laplace                     0.0, 1.0, 2000
logistic                    0.0, 1.0, 2000
lognormal                   0.0, 1.0, 2000
logseries                   0.5, 2000
multinomial                 20, [0.2, 0.3, 0.5], 2000
multivariate_hypergeometric [10, 20, 30], 12, 2000
multivariate_normal         [0.0, 1.0], [[2.0, 0.5], [0.5, 1.0]], 2000
negative_binomial           5, 0.4, 2000
noncentral_chisquare        3.0, 1.0, 2000
noncentral_f                3.0, 4.0, 1.0, 2000
normal                      1.0, 2.0, 2000
pareto                      3.0, 2000
permutation                 v
permuted                    v
poisson                     3.0, 2000
power                       2.0, 2000
random                      2000
rayleigh                    2.0, 2000
shuffle                     (f(w), w)[1]
spawn                       [each.random(2000) for each in f(2)]
standard_cauchy             2000
standard_exponential        2000
standard_gamma              2.0, 2000
standard_normal             2000
standard_t                  3.0, 2000
triangular                  0.0, 1.0, 3.0, 2000
uniform                     2.0, 3.0, 2000
vonmises                    0.0, 1.0, 2000
wald                        1.0, 2.0, 2000
weibull                     2.0, 2000
zipf                        3.0, 2000
"""

# Samplers of a dealt parameter, named once: who brings it to every process brings the whole of the operands.
SAMPLERS = """
beta                        1 + L, 2.0
binomial                    9, L
chisquare                   1 + L
choice                      v, 2000
exponential                 L
f                           3 + L, 4.0
gamma                       2.0, 1 + L
geometric                   L
gumbel                      L, 2.0
hypergeometric              20 + (50 * L).astype(int), 30, 10
integers                    0, 5 + (50 * L).astype(int)
laplace                     0.0, L
logistic                    L, 2.0
lognormal                   0.0, L
logseries                   L
negative_binomial           5, L
noncentral_chisquare        3.0, L
noncentral_f                3.0, 4 + L, 1.0
normal                      L, 2.0
pareto                      1 + L
permutation                 L
poisson                     9 * L
power                       1 + L
rayleigh                    L
standard_gamma              L
standard_t                  3 + L
triangular                  -1.0, 0.0, L
uniform                     0.0, L
vonmises                    0.0, 1 + L
wald                        1 + L, 2.0
weibull                     1 + L
zipf                        2 + L
"""

METHODS = """
T               A.T
all             M.all(axis=0)
any             M.any(axis=0)
argmax          A.argmax(axis=0)
argmin          A.argmin(axis=0)
argpartition    v[v.argpartition(40)[40]]
argsort         v.argsort(kind='stable')
astype          A.astype(np.float32)
choose          (I % 3).choose([v, u, 2 * v])
clip            A.clip(-1.0, 1.0)
compress        v.compress(v > 0)
conj            C.conj()
conjugate       C.conjugate()
copy            A.copy()
cumprod         v.cumprod()
cumsum          v.cumsum()
device          A.device
diagonal        A.diagonal()
dot             A.dot(A2.T)
dtype           A.dtype
fill            (W.fill(2.0), W)
flat            A.flat[30]
flatten         A.flatten()
imag            C.imag
item            A[3, 4].item()
itemsize        A.itemsize
mT              A.mT
max             A.max(axis=0)
mean            A.mean(axis=0)
min             A.min(axis=0)
nbytes          A.nbytes
ndim            A.ndim
nonzero         M.nonzero()
partition       (w.partition(40), w[40] + 0, w.sort())[1]
prod            A.prod(axis=0)
put             (w.put([3, 5], 1.5), w)
ravel           A.ravel()
real            C.real
repeat          v.repeat(3)
reshape         A.reshape(140, 190)
resize          (w.resize(10, refcheck=False), w)
round           A.round(1)
searchsorted    k.searchsorted(u)
shape           A.shape
size            A.size
sort            (w.sort(), w)
squeeze         A[:, :1].squeeze(axis=1)
std             A.std(axis=0)
sum             A.sum(axis=0)
swapaxes        A.swapaxes(0, 1)
take            A.take(I, axis=0)
to_device       A.to_device('cpu')
tobytes         A.tobytes()
tofile          [A.tofile(path + '/x.bin'), np.fromfile(path + '/x.bin')][1]
tolist          A.tolist()
trace           S.trace()
transpose       A.transpose(1, 0)
var             A.var(axis=0)
view            v.view(np.int64)
"""

OPERATORS = """
A + A2 | A - 1.5 | 2 * A | A / A2 | J // J2 | J % J2 | U ** 2 | A @ A2.T | A @ A2[0] | -A | +A | abs(A) | ~J | J & J2
J | J2 | J ^ J2 | J2 << 2 | J >> 1 | A < A2 | A <= A2 | A > A2 | A >= A2 | J == J2 | J != J2 | divmod(J, J2)
float(A[3, 4]) | int(J[3, 4]) | complex(C[3, 4]) | bool(M[3, 4]) | len(A) | 1.5 in A | [*A[:3]]
operator.iadd(W, A2) | operator.imatmul(S, S) | f'{A[3, 4]:.3f}' | str(A[:3, :3]) | pickle.loads(pickle.dumps(A))
copy.copy(A) | copy.deepcopy(A) | np.asarray(A) | np.float64(A[3, 4])
"""
INDEXING = """
A[3] | A[-1, 2] | A[3:40:7] | A[::-1, ::2] | A[..., None] | A[:, 5] | v[B] | A[M] | A[v[:190] > 0]
A[I] | A[:, [3, 3, -1]] | A[I[:9], I2[:9]] | A[np.ix_([1, 2], [3, 4])] | A[3, I] | A[I[0]] | v[o] | A[o[:40] % 190]
(operator.setitem(W, 3, 1.5), W) | (operator.setitem(W, (slice(3, 40, 7), 2), 7.0), W)
(operator.setitem(W, slice(0, 9), A2[:9]), W) | (operator.setitem(w, B, 0.0), w) | (operator.setitem(w, o, u), w)
(operator.setitem(w, B, u[:int(np.count_nonzero(B))]), w) | (operator.setitem(W, ([1, 2], [3, 4]), 5.0), W)
"""

WRITTEN = """
np.roll(A, 1, 0) | np.flip(A, 0) | np.stack([A, A2], 0) | np.take(A, I, 0) | np.repeat(A, 2, 0) | A.repeat(2, 0)
A.take(I, 0) | np.tril(A, 1) | np.tensordot(A, A2.T, 1) | np.zeros_like(A, int) | np.reshape(A, (140, 190), 'C')
np.reshape(A, (140, 190), 'F') | A.copy('C') | A.item(3, 4) | np.clip(a=A, a_min=0, a_max=1) | np.max(A, 0, None, True)
np.std(A, axis=0, ddof=1) | np.where(M) | A == None | round(A[3, 4], 2) | A.astype(int, casting='unsafe')
np.nanmean(N, axis=0, dtype=np.float32) | np.mean(A, where=M) | np.unique(J, axis=0) | np.linalg.norm(A, axis=1)
np.lib.stride_tricks.sliding_window_view(v, 5) | np.lexsort((v, I)) | np.fft.rfft(A, axis=0) | len(A.flat)
dates - dates[0] | np.diff(dates) | np.sort(dates) | dates.min() | dates < dates[0] | dates[dates > dates[3]]
np.unique(dates) | (dates - dates[0]).sum() | dates.astype('M8[M]') | C.view(float)
np.repeat(v, I) | np.bincount(I * 9000) | np.bincount(I * 9000, v) | np.quantile(v, U[0]) | np.digitize(v, k[::99])
np.histogram(v, k[::99]) | np.insert(v, o[:99], 1.0) | np.delete(v, o) | np.add.reduceat(v, k[:9].astype(int) + 9)
np.array([u, v]) | np.r_[u, v] | np.vectorize(abs)(v)
"""

UFUNC_METHODS = {"reduce": "I", "accumulate": "I", "reduceat": "I, [0, 50, 200]", "outer": "I[:300], I2[:400]",
                 "at": "(f(o, [3, 5], 2), o)"}  # fmt: skip

# -------------------------------------------------------------------------- what is left out

LEFT_OUT = {
    "settings, printing, text": """
        array2string array_repr array_str base_repr binary_repr format_float_positional format_float_scientific
        get_include get_printoptions getbufsize geterr geterrcall info printoptions set_printoptions setbufsize seterr
        seterrcall show_config show_runtime test typename""",
    "dtypes and shapes": "broadcast_shapes isdtype issubdtype mintypecode min_scalar_type promote_types",
    "the memory of one process": """
        asfortranarray frombuffer isfortran nested_iters""",
    "calendars": "busday_count busday_offset datetime_as_string datetime_data is_busday",
    "Python objects, text files": "frompyfunc fromfile fromiter fromregex fromstring genfromtxt isscalar iterable",
}
NO_METHODS = "base byteswap ctypes data dump dumps flags getfield setfield setflags strides"

STANDARD = """
__array_namespace_info__ abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2
atanh bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor broadcast_arrays
broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero cumulative_prod cumulative_sum diff divide
empty empty_like equal exp expand_dims expm1 eye finfo flip floor floor_divide from_dlpack full full_like greater
greater_equal hypot iinfo imag isdtype isfinite isinf isnan less less_equal linspace log log10 log1p log2 logaddexp
logical_and logical_not logical_or logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis
multiply negative nextafter nonzero not_equal ones ones_like permute_dims positive pow prod real reciprocal remainder
repeat reshape result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract
sum take take_along_axis tan tanh tensordot tile tril triu trunc unique_all unique_counts unique_inverse unique_values
unstack var vecdot where zeros zeros_like linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eigh
linalg.eigvalsh linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals
linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm fft.fft fft.fftfreq fft.fftn fft.fftshift fft.hfft
fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft fft.irfftn fft.rfft fft.rfftfreq fft.rfftn
"""

# ------------------------------------------------------------------------------- cases


@dataclass(frozen=True)
class Case:
    """A call to try: its text, the functions to try in turn, NumPy's own, and how results are compared."""

    section: str
    name: str
    text: str
    ways: tuple[tuple[str, Callable[[], Any]], ...]  # what it is called as, and a function that gets it
    numpy: Callable[[], Any]
    how: str = "values"  # or "signs", "kind", "distribution"

    @property
    def expression(self) -> str:
        """The expression to evaluate, in which f is the function."""
        return self.text if _is_expression(self.text) else f"f({self.text})"

    def shown(self, name: str) -> str:
        """Return the call as a user would write it."""
        if not _is_expression(self.text):
            return f"{name}({self.text})"
        return re.sub(r"\bf\(", f"{name}(", self.text)


def _is_expression(text: str) -> bool:
    return re.search(r"\bf\(", text) is not None


@dataclass
class Cell:
    """The outcome of a case: the name it was called by, a status and a note."""

    case: Case
    called: str = ""
    status: str = "missing"
    note: str = ""


@dataclass
class Attempt:
    """The outcome of calling a case in one way, on one process."""

    value: Any = None
    error: BaseException | None = None
    steps: tuple[int, int, int] = (0, 0, 0)  # before the call, after it, when the result was computed
    arrays: bool = False  # there are arrays of ours in the result
    lazy: bool = False
    words: int = 0  # of operands, or of the result if it is larger
    given: bool = False  # operands are arrays of ours


def table(text: str) -> dict[str, str]:
    """Return the rest of each line by its first word."""
    rows = [line.split(None, 1) for line in text.strip().splitlines()]
    return {name: rest.strip() for name, rest in rows}


def listed(text: str) -> list[str]:
    """Split a list at " | "; the bar of `J | J2` is an operator and does not split."""
    found = [
        each.strip() for line in text.strip().splitlines() for each in line.replace("J | J2", "J ¦ J2").split(" | ")
    ]
    return [each.replace("¦", "|") for each in found]


def scope(values: dict[str, Any], function: Any, folder: str) -> dict[str, Any]:
    """Return the names that an expression is evaluated with."""
    import copy
    import operator
    import pickle

    return {"np": np, "f": function, "path": folder, "operator": operator, "pickle": pickle, "copy": copy, **values}


def used(expression: str, large: bool = False) -> dict[str, np.ndarray]:
    """Return copies of the operands that an expression names."""
    whole = operands(large)
    found = set(re.findall(r"\w+", expression))
    return {name: array.copy() for name, array in whole.items() if name in found}


def taken(expression: str, function: Any) -> bool:
    """Return True if NumPy accepts the call."""
    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        eval(expression, scope(used(expression), function, "/"))
        return True
    return False


def _generic(function: Any) -> str:
    """Return the first of the generic operands that NumPy accepts."""
    return next((text for text in GENERIC if taken(f"f({text})", function)), "A")


def _of(module: str, names: Sequence[str], section: str, recipes: dict[str, str]) -> list[Case]:
    """Return the cases of a module's functions."""
    theirs: Any = np if not module else getattr(np, module)
    ours: Any = ba if not module else getattr(ba, module)
    dot = f"{module}." if module else ""
    found = []
    for name in names:
        get = partial(getattr, theirs, name)
        text = recipes.get(name) or _generic(get())
        ways = [(f"np.{dot}{name}", get)]
        if callable(getattr(ours, name, None)):
            ways.append((f"ba.{dot}{name}", partial(getattr, ours, name)))
        found.append(Case(section, name, text, tuple(ways), get, HOW.get(name, "values")))
    return found


def _standard(recipes: dict[str, str]) -> list[Case]:
    """Return the cases of the array API standard's functions."""
    found = []
    for name in STANDARD.split():
        module, _, short = name.rpartition(".")
        theirs, ours = (getattr(each, module) if module else each for each in (np, ba))
        text = recipes.get(short) or _generic(getattr(theirs, short))
        way = (f"ba.{name}", partial(getattr, ours, short))
        get = partial(getattr, theirs, short)
        found.append(Case("array API standard 2024.12", name, text, (way,), get, HOW.get(short, "values")))
    return found


def _drawing(random: Any, name: str) -> Any:
    """Return a method of a new generator, so that every call draws from the same state."""
    return getattr(random.default_rng(7), name)


def _generators() -> list[Case]:
    recipes = table(GENERATOR)
    names = [name for name in dir(np.random.Generator) if not name.startswith("_") and name != "bit_generator"]
    calls = [("numpy.random.Generator", name, recipes.get(name, "2000")) for name in names]
    calls += [("samplers of dealt parameters", name, text) for name, text in table(SAMPLERS).items()]
    found = []
    for section, name, text in calls:
        ways = ((f"rng.{name}", partial(_drawing, ba.random, name)),)
        found.append(Case(section, name, text, ways, partial(_drawing, np.random, name), "distribution"))
    return found


def _ufuncs() -> list[Case]:
    """Return the cases of the methods of every ufunc, on integers; calls that NumPy does not accept are left out."""
    ufuncs = {
        found.__name__: found
        for name in dir(np)
        if isinstance(found := getattr(np, name), np.ufunc) and not found.signature
    }
    cases = []
    for method, text in UFUNC_METHODS.items():
        for name, ufunc in sorted(ufuncs.items()):
            if ufunc.nin > 2 or (ufunc.nin == 1 and method != "at"):
                continue
            given = text if ufunc.nin == 2 else "(f(w, [3, 5]), w)"
            get = partial(getattr, ufunc, method)
            case = Case(f"ufunc.{method}", name, given, ((f"np.{name}.{method}", get),), get)
            if taken(case.expression, get()):
                cases.append(case)
    return cases


def cases() -> list[Case]:
    """Return all cases, in the page's order."""
    recipes = table(RECIPES)
    without = {name for text in LEFT_OUT.values() for name in text.split()}
    functions = sorted(
        name for name in np.__all__
        if callable(getattr(np, name)) and not isinstance(getattr(np, name), type) and name not in without
    )  # fmt: skip
    linear = sorted(name for name in np.linalg.__all__ if not isinstance(getattr(np.linalg, name), type))
    methods = table(METHODS)
    attributes = [name for name in dir(np.ndarray) if not name.startswith("_") and name not in NO_METHODS.split()]

    def plain(section: str, rows: Sequence[tuple[str, str]]) -> list[Case]:
        return [Case(section, name, text, (("", lambda: _itself),), lambda: _itself) for name, text in rows]

    return [
        *_of("", functions, "numpy", recipes),
        *_of("linalg", linear, "numpy.linalg", recipes),
        *_of("fft", sorted(np.fft.__all__), "numpy.fft", recipes),
        *_generators(),
        *plain("methods and attributes", [(name, f"f({methods.get(name, f'A.{name}')})") for name in attributes]),
        *plain("operators and conversions", [(each, f"f({each})") for each in listed(OPERATORS)]),
        *plain("as users write it", [(each, f"f({each})") for each in listed(WRITTEN)]),
        *plain("indexing", [(each, f"f({each})") for each in listed(INDEXING)]),
        *_ufuncs(),
        *_standard(recipes),
    ]


def _itself(value: Any) -> Any:
    return value


# ------------------------------------------------------------------------------- calling


def _parts(value: Any) -> Iterator[ba.Array]:
    if isinstance(value, ba.Array):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _parts(each)


def _plain(value: Any) -> Any:
    """Return a result as values that can be compared and kept; computes arrays."""
    if isinstance(value, ba.Array):
        return np.array(value.compute())
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, (np.ndarray, np.generic, int, float, complex, str, bytes, np.dtype)):
        return value
    return repr(type(value))


def attempted(proc: bsp.Process, case: Case, get: Callable[[], Any], folder: str, large: bool = False) -> Attempt:
    """Call a case in one way; return values, error and supersteps.  Collective: all processes do the same."""
    found = Attempt()
    given = used(case.expression, large)
    values = {name: ba.asarray(array) for name, array in given.items()}
    times = Counter(re.findall(r"\w+", case.expression))
    found.words = sum(each.nbytes * times[name] for name, each in values.items()) // 8
    found.given = bool(given)
    before = called = proc.superstep
    try:
        result = eval(enlarged(case.expression) if large else case.expression, scope(values, get(), folder))
        called = proc.superstep
        own = list(_parts(result))
        found.arrays = bool(own)
        found.lazy = any(each._node.op is not LEAF for each in own)
        for each in own:
            each.persist()
        found.steps = (before, called, proc.superstep)
        found.words = max(found.words, sum(each.nbytes for each in own) // 8)
        found.value = _plain(result)
    except Exception as error:  # noqa: BLE001 - whatever is raised is what the page tells
        found.error = error
        found.steps = (before, called, proc.superstep)
    return found


def called(every: Sequence[Case]) -> tuple[list[list[list[Attempt]]], list[dict[str, Any]]]:
    """Run all cases on NPROCS processes; return attempts by process, case and way, and the superstep records."""
    found: list[list[list[Attempt]]] = [[] for _ in range(NPROCS)]

    def main(proc: bsp.Process) -> None:
        folder = proc.broadcast(tempfile.mkdtemp(dir=top) if proc.pid == 0 else None)
        with np.errstate(all="ignore"):
            for case in every:
                found[proc.pid].append([attempted(proc, case, get, folder) for _, get in case.ways])

    with tempfile.TemporaryDirectory() as top, warnings.catch_warnings(action="ignore"):
        traced = bsp.predict(main, nprocs=NPROCS, machine=bsp.Machine(p=NPROCS))
    return found, traced.per_superstep


def told_apart(proc: bsp.Process, every: Sequence[Case], watch: Callable[[Case, Attempt], None]) -> list[str]:
    """Run the cases in this job and return the differences from NumPy.  Collective: the same list on every process.

    Each process compares some cases.  The operands are the large ones.  `watch` is called after each attempt.  Cases in
    which NumPy itself writes files are left out: every process would write them, and read incomplete files of others.
    """
    found = []
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        folder = proc.broadcast(tempfile.mkdtemp() if proc.pid == 0 else None)
        for number, case in enumerate(every):
            by_numpy = "path" in case.expression and not used(case.expression)
            for name, get in () if by_numpy else case.ways:
                attempt = attempted(proc, case, get, folder, True)
                watch(case, attempt)
                text = ""
                if attempt.error is not None:
                    status, note = _told(attempt.error, case)
                    text = note if status == "wrong" else ""
                elif proc.pid == number % proc.nprocs and (attempt.arrays or not name.startswith("np.")):
                    text = differs(attempt.value, expected(case, True), case.how)
                found += [f"{name or case.name}: {text}"] if text else []
        every_ones = proc.allgather(found)
        if proc.pid == 0:
            shutil.rmtree(folder)
    return sorted({text for own in every_ones for text in own})


# ------------------------------------------------------------------------------- comparing


def expected(case: Case, large: bool = False) -> Any:
    """Return NumPy's result of a case."""
    text = enlarged(case.expression) if large else case.expression
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"), tempfile.TemporaryDirectory() as folder:
        return _plain(eval(text, scope(used(text, large), case.numpy(), folder)))


def differs(found: Any, wanted: Any, how: str) -> str:
    """Describe how a result differs from NumPy's; return "" if it does not."""
    if isinstance(wanted, list):
        if not isinstance(found, list) or len(found) != len(wanted):
            return f"not {len(wanted)} results"
        return next((text for pair in zip(found, wanted, strict=True) if (text := differs(*pair, how))), "")
    if isinstance(wanted, (np.ndarray, np.generic)) and not isinstance(found, (bool, int, float)):
        mine, theirs = np.asarray(found), np.asarray(wanted)
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            return f"{mine.dtype} of shape {mine.shape}, not {theirs.dtype} of shape {theirs.shape}"
        if how == "kind":
            return ""
        if how == "distribution":
            return _unlike(mine.astype(float).ravel(), theirs.astype(float).ravel())
        if how == "signs":
            mine, theirs = abs(mine), abs(theirs)
        if theirs.dtype.kind not in "fc":
            return "" if np.array_equal(mine, theirs) else "other values"
        size = np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))
        near = np.isclose(
            mine, theirs, rtol=1e-9 if theirs.dtype.itemsize >= 8 else 1e-5, atol=1e-9 * size, equal_nan=True
        )
        return "" if near.all() else "other values"
    if isinstance(wanted, (float, np.floating)):
        return "" if np.isclose(float(found), wanted, rtol=1e-9, equal_nan=True) else "another number"
    return "" if found == wanted else f"{found!r:.30}, not {wanted!r:.30}"


def _unlike(found: np.ndarray, wanted: np.ndarray) -> str:
    """Compare two samples by the Kolmogorov-Smirnov distance, at a level of 1e-6; return "" if they agree."""
    both = np.sort(np.concatenate([found, wanted]))
    ranks = [np.searchsorted(np.sort(each), both, side="right") / each.size for each in (found, wanted)]
    distance = np.max(np.abs(ranks[0] - ranks[1]))
    return "" if distance < 2.7 * (2 / found.size) ** 0.5 else f"another distribution (distance {distance:.3f})"


def judged(case: Case, ways: Sequence[Sequence[Attempt]], rows: Sequence[dict[str, Any]], wanted: Any) -> Cell:
    """Return the cell of a case: its best way, or a wrong one; `ways` has all processes' attempts for each way."""
    cells = [
        _judged(case, name, attempts, rows, wanted) for (name, _), attempts in zip(case.ways, ways, strict=True)
    ]  # fmt: skip
    wrong = [cell for cell in cells if cell.status == "wrong"]
    return min(wrong or cells, key=lambda cell: STATUSES.index(cell.status))


def _judged(case: Case, name: str, attempts: Sequence[Attempt], rows: Sequence[dict[str, Any]], wanted: Any) -> Cell:
    first = attempts[0]
    cell = Cell(case, name)
    kinds = {(type(each.error), str(each.error)) for each in attempts}
    if len(kinds) > 1:
        cell.status, cell.note = "wrong", "processes end in different ways"
        return cell
    if first.error is not None:
        cell.status, cell.note = _told(first.error, case)
        return cell
    if name.startswith("np.") and not first.given and not first.arrays and isinstance(wanted, (np.ndarray, list)):
        return cell  # NumPy's own, of no arrays of ours
    for k, each in enumerate(attempts[1:], 1):
        if differs(each.value, first.value, "values"):
            cell.status, cell.note = "wrong", f"process {k} has another result"
            return cell
    before, after, done = first.steps
    received = [row["h_received"] / max(first.words, 1) for row in rows[before:done]]
    whole = max(received, default=0) >= WHOLE or (not first.arrays and sum(received) >= WHOLE)
    if reason := differs(first.value, wanted, case.how):
        cell.status, cell.note = "wrong", reason
    elif first.given and whole:
        cell.status, cell.note = "gathered", f"h = {sum(received):.2f} of the whole"
    else:
        cell.status = "distributed"
        cell.note = "collective" if after > before else "lazy" if first.lazy else "made" if first.arrays else "local"
    return cell


_MISSING = (
    "has no distributed form",
    "is not supported",
    "has no attribute",
    "returned NotImplemented",
    "no implementation",
)


def _told(error: BaseException, case: Case) -> tuple[str, str]:
    """Classify an error as missing, refused with its text, or wrong."""
    text = " ".join(str(error).split())
    if isinstance(error, AttributeError) or any(each in text for each in _MISSING):
        return "missing", ""
    if isinstance(error, (TypeError, ValueError, bsp.BspError, NotImplementedError)):
        return "refused", text
    return "wrong", f"{type(error).__name__}: {text}"


# ------------------------------------------------------------------------------- the page


def covered() -> list[Cell]:
    """Run all cases and return their cells; matrices of few flops take the distributed forms of larger ones."""
    every = cases()
    with mock.patch.object(ways_of_linalg, "FEW", 0):
        found, rows = called(every)
    cells = []
    for k, case in enumerate(every):
        ways = [[found[pid][k][way] for pid in range(NPROCS)] for way in range(len(case.ways))]
        cells.append(judged(case, ways, rows, expected(case)))
    return cells


def sections(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Group cells by section, in order."""
    found: dict[str, list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.case.section, []).append(cell)
    return found


def totals(cells: Sequence[Cell]) -> str:
    """Return a table with a row for each section, and their sum."""
    lines = [f"| | {' | '.join(STATUSES)} | of |", "| --- " * (len(STATUSES) + 2) + "|"]
    for section, own in [*sections(cells).items(), ("**all**", list(cells))]:
        count = Counter(cell.status for cell in own)
        lines.append(f"| {section} | {' | '.join(str(count[each]) for each in STATUSES)} | {len(own)} |")
    return "\n".join(lines)


def page(cells: Sequence[Cell]) -> str:
    """Return the page as Markdown."""
    whole = f"{(NPROCS - 1) / NPROCS:.2f}"
    lines = [HEAD.format(version=np.__version__, nprocs=NPROCS, share=whole) + totals(cells), "", LEGEND, ""]
    for section, own in sections(cells).items():
        lines += [f"## {section}", ""]
        if section.startswith("ufunc."):
            for status in STATUSES:
                names = [f"`{cell.case.name}`" for cell in own if cell.status == status]
                if names:
                    lines.append(f"- {status}: {', '.join(names)}")
        else:
            lines += ["| name | call | | |", "| --- | --- | --- | --- |"]
            lines += [_row(cell) for cell in own]
        lines.append("")
    lines += ["## Left out", ""]
    lines += [f"- {why}: {', '.join(f'`{name}`' for name in sorted(text.split()))}" for why, text in LEFT_OUT.items()]
    lines.append(f"- of arrays, the memory of one process: {', '.join(f'`{name}`' for name in NO_METHODS.split())}")
    return "\n".join(lines) + "\n"


def _row(cell: Cell) -> str:
    call = cell.case.shown(cell.called) if cell.called else cell.case.text[2:-1]
    name = cell.case.name
    columns = ["" if name == call else f"`{name}`", f"`{call}`", cell.status, cell.note]
    return "| " + " | ".join(each.replace("|", "\\|") for each in columns) + " |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 1 if a cell is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.arrays_coverage", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--write", metavar="FILE.md", help="the document, made anew")
    asked_for = parser.parse_args(arguments)
    cells = covered()
    if asked_for.write is None:
        print(page(cells), end="")
    else:
        write_text(page(cells), asked_for.write)
    return int(any(cell.status == "wrong" for cell in cells))


if __name__ == "__main__":
    sys.exit(main())
