/* The loops of products.c for one type of places, INDEX, and one of values, VALUE; NAME makes the names of the functions.
 *
 * Sums begin with zero and go along the entries in the order in which they are stored, and sums that are zero are no entries
 * of a product: all as in scipy.
 */

/* Rows of A times a vector. */
static void NAME(vector)(Py_ssize_t rows, const void *begins_, const void *at_, const void *a_, const void *x_, void *out_)
{
    const INDEX *begins = begins_, *at = at_;
    const VALUE *a = a_, *x = x_;
    VALUE *out = out_;
    for (Py_ssize_t i = 0; i < rows; i++) {
        VALUE sum = 0;
        for (INDEX k = begins[i]; k < begins[i + 1]; k++)
            sum += a[k] * x[at[k]];
        out[i] = sum;
    }
}

/* The number of products that row i of A @ B is the sum of. */
static int64_t NAME(products)(const Factors *it, Py_ssize_t i)
{
    const INDEX *at = it->places;
    int64_t found = 0;
    for (int64_t k = it->begins[i]; k < it->begins[i + 1]; k++)
        found += it->other_begins[at[k] + 1] - it->other_begins[at[k]];
    return found;
}

/* Row i of A @ B, of few products, which are inserted in order; return the number of its entries. */
static Py_ssize_t NAME(few)(const Factors *it, Py_ssize_t i, void *places_, void *values_)
{
    const INDEX *at = it->places, *columns = it->other_places;
    const VALUE *a = it->values, *b = it->other_values;
    INDEX *places = places_;
    VALUE *values = values_;
    Py_ssize_t count = 0;
    for (int64_t k = it->begins[i]; k < it->begins[i + 1]; k++)
        for (int64_t e = it->other_begins[at[k]]; e < it->other_begins[at[k] + 1]; e++) {
            Py_ssize_t here = count;
            while (here && places[here - 1] > columns[e])
                here--;
            if (here && places[here - 1] == columns[e]) {
                values[here - 1] += a[k] * b[e];
                continue;
            }
            for (Py_ssize_t q = count++; q > here; q--) {
                places[q] = places[q - 1];
                values[q] = values[q - 1];
            }
            places[here] = columns[e];
            values[here] = (VALUE)0 + a[k] * b[e];
        }
    Py_ssize_t kept = 0;
    for (Py_ssize_t here = 0; here < count; here++)
        if (values[here] != 0) {
            places[kept] = places[here];
            values[kept++] = values[here];
        }
    return kept;
}

/* Row i of A @ B, of many products, which are added up in a full row; it and the marks are zero before and after. */
static Py_ssize_t NAME(many)(const Factors *it, Py_ssize_t i, const Marks *marks, void *sums_, void *places_, void *values_)
{
    const INDEX *at = it->places, *columns = it->other_places;
    const VALUE *a = it->values, *b = it->other_values;
    INDEX *places = places_;
    VALUE *values = values_, *sums = sums_;
    Py_ssize_t count = 0;
    for (int64_t k = it->begins[i]; k < it->begins[i + 1]; k++)
        for (int64_t e = it->other_begins[at[k]]; e < it->other_begins[at[k] + 1]; e++) {
            mark(marks, (uint64_t)columns[e]);
            sums[columns[e]] += a[k] * b[e];
        }
    for (Py_ssize_t top = 0; top < marks->tops; top++)
        for (uint64_t of_top = taken(marks->top + top); of_top; of_top &= of_top - 1) {
            uint64_t middle = 64 * (uint64_t)top + lowest(of_top);
            for (uint64_t of_middle = taken(marks->middle + middle); of_middle; of_middle &= of_middle - 1) {
                uint64_t word = 64 * middle + lowest(of_middle);
                for (uint64_t bits = taken(marks->columns + word); bits; bits &= bits - 1) {
                    uint64_t column = 64 * word + lowest(bits);
                    if (sums[column] == 0)
                        continue;
                    places[count] = (INDEX)column;
                    values[count++] = sums[column];
                    sums[column] = 0;
                }
            }
        }
    return count;
}
